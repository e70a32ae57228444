//! A cache of programs: an expression that many objects hold, or that one object is written with again and again, is
//! compiled once.
//!
//! It is bounded by the bytes of the expressions. Half of it is young: what is found in the old half moves to the young
//! one, and when that is full it becomes the old one, so programs that nobody asks for any more fall out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{environment::Environment, error::CompileError, program::Program};

type ProgramKey = (u64, Box<str>);

/// A bounded, shared cache of programs by environment and expression.
#[derive(Debug)]
pub struct ProgramCache {
    max_bytes: usize,
    halves: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<ProgramKey, Arc<Program>>,
    old: HashMap<ProgramKey, Arc<Program>>,
    young_bytes: usize,
}

/// Counted for a program beside its expression.
const PROGRAM_BYTES: usize = 1024;

impl ProgramCache {
    /// A cache of expressions of at most so many bytes, each of which counts for 1 KiB more.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            halves: Mutex::default(),
        }
    }

    /// The program of an expression, compiled now if it is not there. What does not compile is not kept.
    ///
    /// # Errors
    /// If the expression does not compile.
    pub fn program(&self, environment: &Arc<Environment>, expression: &str) -> Result<Arc<Program>, CompileError> {
        let key = (environment.id(), Box::from(expression));
        if let Some(program) = self.halves().find(&key) {
            return Ok(program);
        }
        // Not under the lock: two threads may compile the same expression, nobody waits.
        let program = Arc::new(Program::new(Arc::clone(environment), expression)?);
        self.halves().insert(key, Arc::clone(&program), self.max_bytes / 2);
        Ok(program)
    }

    fn halves(&self) -> std::sync::MutexGuard<'_, Generations> {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn find(&mut self, key: &ProgramKey) -> Option<Arc<Program>> {
        if let Some(program) = self.young.get(key) {
            return Some(Arc::clone(program));
        }
        let program = self.old.remove(key)?;
        self.young_bytes += key.1.len() + PROGRAM_BYTES;
        self.young.insert(key.clone(), Arc::clone(&program));
        Some(program)
    }

    fn insert(&mut self, key: ProgramKey, program: Arc<Program>, max_bytes: usize) {
        let bytes = key.1.len() + PROGRAM_BYTES;
        if self.young_bytes + bytes > max_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key, program);
    }
}
