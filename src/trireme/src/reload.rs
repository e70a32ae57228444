//! Files that may change while the replica runs: certificates, CAs, tokens.
//!
//! `front` loads them through a [`Reloader`] and uses what is [`Current`]. They are read again every 400 ms. A change
//! counts when it has stayed the same for two looks, as the first one may have found a file half written or a certificate
//! without its key. An unusable file is logged once, and the one in use before stays; one that waits for another server
//! is tried again.
//!
//! Promise: [`Current`] is never worse than it was. Keys and tokens are not kept beside what is made of them.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use arc_swap::ArcSwap;
use trireme_actors::{ActorSystem, Clock};

use crate::build_error::{BuildError, read_file};
use crate::config_controller::{ConfigController, FollowedFile, hash};

/// Between two looks. A change is in use after twice as long at most: what is revoked is so within a second.
const INTERVAL: Duration = Duration::from_millis(400);

const RELOADS: &str = "trireme_file_reloads_total";
const LAST_RELOAD: &str = "trireme_file_last_reload_timestamp_seconds";

/// The newest value that was read from some files.
pub(crate) type Current<T> = Arc<ArcSwap<T>>;

/// The files that are looked at.
#[derive(Default)]
pub(crate) struct Reloader(Vec<Source>);

struct Source {
    /// The name of the files, for the log and for metrics.
    what: &'static str,
    files: Vec<PathBuf>,
    /// The hash of the content that is in use, or that was found to be of no use; `None` if it could not be read.
    judged: Option<String>,
    /// That of another content that the last look found.
    unsettled: Option<Option<String>>,
    replace: Box<ReplaceContents>,
    /// Counts reloads by kube-apiserver's names as well.
    controller: Option<ConfigController>,
}

/// Puts what is made of contents in the place of what was made before.
type ReplaceContents = dyn Fn(&[Vec<u8>]) -> Result<(), BuildError> + Send;

impl Reloader {
    /// Makes something of the contents of files, now and whenever they change.
    ///
    /// # Errors
    /// If that cannot be done now.
    pub(crate) fn load<T: Send + Sync + 'static>(
        &mut self,
        what: &'static str,
        files: Vec<PathBuf>,
        make: impl Fn(&[Vec<u8>]) -> Result<T, BuildError> + Send + 'static,
    ) -> Result<Current<T>, BuildError> {
        let contents = read(&files)?;
        let current = Arc::new(ArcSwap::from_pointee(make(&contents)?));
        let replaced = Arc::clone(&current);
        self.0.push(Source {
            what,
            judged: Some(contents_hash(&contents)),
            unsettled: None,
            files,
            replace: Box::new(move |contents| {
                replaced.store(Arc::new(make(contents)?));
                Ok(())
            }),
            controller: None,
        });
        Ok(current)
    }

    /// Hands the content of a structured configuration on whenever it is another than the one in use, also if it has changed
    /// since that was read.
    pub(crate) fn follow_configuration(
        &mut self,
        what: &'static str,
        in_use: FollowedFile,
        controller: ConfigController,
        replace: impl Fn(&[u8]) -> Result<(), BuildError> + Send + 'static,
    ) {
        controller.apply(&in_use.hash);
        self.0.push(Source {
            what,
            judged: Some(in_use.hash),
            unsettled: None,
            files: vec![in_use.path],
            replace: Box::new(move |contents| contents.iter().try_for_each(|content| replace(content))),
            controller: Some(controller),
        });
    }

    /// Goes on looking, until the system ends.
    pub(crate) fn start(self, system: &ActorSystem) {
        let clock = system.clock().clone();
        let _ = system.tasks().spawn_named("file reload", look_for_ever(self, clock));
    }

    /// Looks at all files once.
    fn look(&mut self, clock: &Clock) {
        for source in &mut self.0 {
            if let Some(result) = source.look() {
                let status = report(source.what, &result, clock);
                if let Some(controller) = &source.controller {
                    controller.count(status, clock);
                }
            }
        }
    }
}

async fn look_for_ever(mut reloader: Reloader, clock: Clock) {
    loop {
        clock.sleep(INTERVAL).await;
        let now = clock.clone();
        // A directory may be on a disk far away.
        let looked = tokio::task::spawn_blocking(move || {
            reloader.look(&now);
            reloader
        });
        match looked.await {
            Ok(back) => reloader = back,
            Err(error) => return tracing::error!(%error, "files are not looked at any more"),
        }
    }
}

impl Source {
    /// Reads the files; says what came of it if there was anything new to be judged.
    fn look(&mut self) -> Option<Result<(), BuildError>> {
        let contents = read(&self.files);
        let seen = contents.as_ref().ok().map(|contents| contents_hash(contents));
        if seen == self.judged {
            self.unsettled = None;
            return None;
        }
        if self.unsettled.as_ref() != Some(&seen) {
            self.unsettled = Some(seen);
            return None;
        }
        self.unsettled = None;
        let result = contents.and_then(|contents| {
            (self.replace)(&contents)?;
            if let Some(controller) = &self.controller {
                controller.apply(seen.as_deref().unwrap_or_default());
            }
            Ok(())
        });
        // Otherwise it is tried again, after two more looks.
        if !matches!(&result, Err(error) if error.may_pass()) {
            self.judged = seen;
        }
        Some(result)
    }
}

fn read(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, BuildError> {
    files.iter().map(|file| read_file(file)).collect()
}

/// The hashes of some files, one after the other.
fn contents_hash(contents: &[Vec<u8>]) -> String {
    contents.iter().map(|content| hash(content)).collect()
}

/// Logs and counts what came of a change; gives the word for it.
fn report(what: &'static str, result: &Result<(), BuildError>, clock: &Clock) -> &'static str {
    let status = match result {
        Ok(()) => {
            tracing::info!(file = what, "loaded anew");
            "success"
        }
        Err(error) => {
            let error: &(dyn Error + 'static) = error;
            tracing::error!(
                file = what,
                error,
                "cannot be used; what was loaded before stays in use"
            );
            "failure"
        }
    };
    metrics::counter!(RELOADS, "file" => what, "status" => status).increment(1);
    let now = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    metrics::gauge!(LAST_RELOAD, "file" => what, "status" => status).set(now.as_secs_f64());
    status
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A reloader of two files that must hold the same, a directory for them, and what is in use.
    fn of_twins() -> (Reloader, tempfile::TempDir, Current<String>) {
        let dir = tempfile::tempdir().expect("a directory");
        let files = ["a", "b"].map(|name| dir.path().join(name));
        for file in &files {
            fs::write(file, "1").expect("written");
        }
        let mut reloader = Reloader::default();
        let current = reloader.load("twins", files.to_vec(), |contents| match contents {
            [a, b] if a == b => Ok(String::from_utf8_lossy(a).into_owned()),
            _ => Err(BuildError::Threads(std::io::Error::other("they differ"))),
        });
        (reloader, dir, current.expect("they are the same"))
    }

    fn look(reloader: &mut Reloader) -> Option<bool> {
        reloader.0[0].look().map(|result| result.is_ok())
    }

    #[test]
    fn a_change_is_used_once_it_has_settled() {
        let (mut reloader, dir, current) = of_twins();
        assert_eq!(look(&mut reloader), None);
        fs::write(dir.path().join("a"), "2").expect("written");
        assert_eq!(look(&mut reloader), None, "perhaps the other one comes yet");
        fs::write(dir.path().join("b"), "2").expect("written");
        assert_eq!(look(&mut reloader), None);
        assert_eq!(**current.load(), "1");
        assert_eq!(look(&mut reloader), Some(true));
        assert_eq!(**current.load(), "2");
        assert_eq!(look(&mut reloader), None);
    }

    #[test]
    fn an_unusable_file_is_logged_once_and_changes_nothing() {
        let (mut reloader, dir, current) = of_twins();
        let one = dir.path().join("a");
        fs::write(&one, "2").expect("written");
        let looks: Vec<Option<bool>> = (0..5).map(|_| look(&mut reloader)).collect();
        assert_eq!(looks, [None, Some(false), None, None, None]);
        fs::remove_file(&one).expect("removed");
        let looks: Vec<Option<bool>> = (0..5).map(|_| look(&mut reloader)).collect();
        assert_eq!(looks, [None, Some(false), None, None, None]);
        assert_eq!(**current.load(), "1");
        fs::write(&one, "1").expect("written");
        let looks: Vec<Option<bool>> = (0..3).map(|_| look(&mut reloader)).collect();
        assert_eq!(looks, [None, Some(true), None], "it is as it was again");
    }

    #[test]
    fn a_configuration_that_changed_while_the_server_started_is_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("configuration");
        fs::write(&path, "2").expect("written");
        let in_use = Arc::new(ArcSwap::from_pointee("1".to_owned()));
        let replaced = Arc::clone(&in_use);
        let mut reloader = Reloader::default();
        let controller = ConfigController::new("apiserver_test_config_controller", "server");
        let file = FollowedFile::new(path.clone(), b"1");
        reloader.follow_configuration("configuration", file, controller, move |content| {
            replaced.store(Arc::new(String::from_utf8_lossy(content).into_owned()));
            Ok(())
        });
        let looks: Vec<Option<bool>> = (0..3).map(|_| look(&mut reloader)).collect();
        assert_eq!(looks, [None, Some(true), None]);
        assert_eq!(**in_use.load(), "2");
    }
}
