//! The paths by which expressions reach parts of variables.
//!
//! cel-go appends to slices of Go: a path that is appended to keeps its array while that has room, so two paths that
//! were made from one may be written to the same place, and the earlier reads what the later wrote. `x.a.all(y, x.b)`
//! counts the items of `x.b` for that reason where `x` is an item of `self.list`. Estimates decide which definitions
//! are accepted, so the arrays are the same here.

/// A path: so many steps at the start of an array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValuePath {
    array: usize,
    len: usize,
}

#[derive(Debug)]
struct StepArray<'t> {
    steps: Vec<&'t str>,
    /// The steps that it has room for, as Go would count it.
    capacity: usize,
}

/// The arrays of all paths of an expression.
#[derive(Debug, Default)]
pub(crate) struct Paths<'t> {
    arrays: Vec<StepArray<'t>>,
}

impl<'t> Paths<'t> {
    /// A path of one step.
    pub(crate) fn of_variable(&mut self, name: &'t str) -> ValuePath {
        self.allocate(vec![name], 1)
    }

    /// A path with a step more; what is reached by no path begins one.
    pub(crate) fn append(&mut self, path: Option<ValuePath>, step: &'t str) -> ValuePath {
        let Some((path, array)) = path.and_then(|path| Some((path, self.arrays.get_mut(path.array)?))) else {
            return self.of_variable(step);
        };
        if path.len < array.capacity {
            match array.steps.get_mut(path.len) {
                Some(taken) => *taken = step,
                None => array.steps.push(step),
            }
            return ValuePath {
                len: path.len + 1,
                ..path
            };
        }
        let (mut steps, capacity) = (array.steps.clone(), array.capacity);
        steps.push(step);
        self.allocate(steps, capacity * 2)
    }

    /// The steps after the variable; none for what no path leads to.
    pub(crate) fn below_variable(&self, path: Option<ValuePath>) -> Option<&[&'t str]> {
        let path = path?;
        self.arrays.get(path.array)?.steps.get(1..path.len)
    }

    fn allocate(&mut self, steps: Vec<&'t str>, capacity: usize) -> ValuePath {
        let path = ValuePath {
            array: self.arrays.len(),
            len: steps.len(),
        };
        self.arrays.push(StepArray { steps, capacity });
        path
    }
}
