//! A file of the embedded store whose newest commits were damaged after the process was killed: it is refused, or all that
//! was acknowledged is in it. It never comes back as an older state.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use trireme_storage::{EmbeddedOptions, EmbeddedStore, RangeRequest, Revision, Storage, StorageError};

/// Acknowledged writes before the kill: some dozens of commits.
const WRITES: usize = 300;
/// Places where a bit is flipped, beside those in the header.
const PLACES: usize = 150;
/// The bytes in which redb keeps its two commit slots.
const HEADER_BYTES: usize = 320;
/// The bits that are flipped in each byte of the header.
const HEADER_BITS: [u8; 2] = [0, 1];
/// The byte of redb's flags, which no checksum covers. Bit 0 says which of the two slots is the newer one: a commit becomes
/// the newer one by the write of this bit alone, so a flip of it cannot be distinguished from a kill between two phases.
const FLAGS: usize = 9;
/// Says that the newer commit was made in two phases.
const TWO_PHASES: u8 = 2;
/// Bit 1 says that the file was not closed, which is verified like one that was; bit 3 is for files that processes share; the
/// others mean nothing.
const HARMLESS_FLAGS: [u8; 6] = [1, 3, 4, 5, 6, 7];

/// Lets a process write until it has acknowledged enough, and kills it in the middle of its load. Returns the newest
/// acknowledged revision.
fn write_and_kill(dir: &Path) -> Revision {
    let mut probe = Command::new(env!("CARGO_BIN_EXE_trireme-store-probe"))
        .args([Path::new("write"), dir, Path::new("1")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the probe starts");
    let lines = BufReader::new(probe.stdout.take().expect("it prints")).lines();
    let acknowledged = lines
        .map_while(Result::ok)
        .filter(|line| line.contains(r#""line":"ack""#))
        .map(|line| {
            let (_, rest) = line.split_once(r#""revision":"#).expect("a revision");
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<Revision>().expect("a number")
        });
    let newest = acknowledged.take(WRITES).max().expect("it writes");
    probe.kill().expect("it is killed");
    probe.wait().expect("it is gone");
    newest
}

/// All entries and the clock.
type State = (Revision, BTreeMap<Arc<str>, (Revision, Vec<u8>)>);

async fn state(dir: &Path) -> Result<State, StorageError> {
    let options = EmbeddedOptions {
        fsync: false,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(dir, options)?;
    let page = store
        .range(RangeRequest {
            prefix: "/".to_owned(),
            start: None,
            limit: 0,
            revision: None,
        })
        .await?;
    let entries = page.entries.into_iter();
    let entries = entries.map(|entry| (entry.key.clone(), (entry.mod_revision, entry.value.to_vec())));
    Ok((page.revision, entries.collect()))
}

/// Opens the store with one bit of its file flipped.
async fn flipped(dir: &Path, bytes: &[u8], (at, bit): (usize, u8)) -> Result<State, StorageError> {
    let mut damaged = bytes.to_vec();
    damaged[at] ^= 1 << bit;
    fs::write(dir.join("store.redb"), &damaged).expect("the file is damaged");
    state(dir).await
}

/// Flips bits, each alone: the file is refused, or all of its state is there. Returns the number of refusals.
async fn refusals(dir: &Path, bytes: &[u8], sound: &State, flips: impl Iterator<Item = (usize, u8)>) -> usize {
    let mut refused = 0;
    for (at, bit) in flips {
        match flipped(dir, bytes, (at, bit)).await {
            Err(StorageError::Failed(why)) => {
                assert!(why.contains("store.redb"), "bit {bit} of byte {at}: {why}");
                refused += 1;
            }
            Err(error) => panic!("bit {bit} of byte {at}: {error}"),
            Ok(found) => assert!(
                found == *sound,
                "bit {bit} of byte {at}: revision {} for {}",
                found.0,
                sound.0
            ),
        }
    }
    refused
}

/// The first and the last byte of the record of the newest entry, key and value, in the newest commit and in older copies of its
/// page.
fn newest_record(bytes: &[u8], sound: &State) -> Vec<usize> {
    let newest = sound.1.iter().max_by_key(|(_, (revision, _))| *revision);
    let (key, (_, value)) = newest.expect("there are entries");
    let record = [key.as_bytes(), value].concat();
    let copies = bytes.windows(record.len()).enumerate();
    let copies = copies.filter(|(_, found)| *found == record);
    copies.flat_map(|(at, _)| [at, at + record.len() - 1]).collect()
}

#[tokio::test]
async fn a_commit_that_is_damaged_after_a_kill_is_never_rolled_back_in_silence() {
    let dir = tempfile::tempdir().expect("a directory");
    let newest = write_and_kill(dir.path());
    let bytes = fs::read(dir.path().join("store.redb")).expect("the file as the kill left it");
    let sound = state(dir.path()).await.expect("a kill damages nothing");
    assert!(sound.0 >= newest, "all that was acknowledged is there");
    assert_eq!(bytes[FLAGS] >> 1, 0b11, "not closed, and committed in two phases");

    let header = (0..HEADER_BYTES)
        .filter(|at| *at != FLAGS)
        .flat_map(|at| HEADER_BITS.map(|bit| (at, bit)))
        .chain(HARMLESS_FLAGS.map(|bit| (FLAGS, bit)));
    let refused = refusals(dir.path(), &bytes, &sound, header).await;
    assert!(refused > 0, "damage of the header is seen");

    let record = newest_record(&bytes, &sound).into_iter().map(|at| (at, 3));
    let refused = refusals(dir.path(), &bytes, &sound, record).await;
    assert!(refused > 0, "damage of the newest entry is seen");

    let body = (HEADER_BYTES..bytes.len()).step_by(bytes.len() / PLACES);
    refusals(dir.path(), &bytes, &sound, body.map(|at| (at, 3))).await;

    // The commit that the kill has interrupted may be there then, if it is complete.
    let found = flipped(dir.path(), &bytes, (FLAGS, TWO_PHASES)).await;
    let found = found.expect("no commit is damaged");
    assert!(
        found == sound || found.0 > sound.0,
        "without the flag of two phases: revision {} for {}",
        found.0,
        sound.0
    );
}

#[test]
fn the_file_is_for_its_owner_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().join("data");
    let path = store.join("store.redb");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    drop(EmbeddedStore::open(&store, EmbeddedOptions::default()).expect("a new store opens"));
    assert_eq!((mode(&store), mode(&path)), (0o700, 0o600));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("others may read");
    drop(EmbeddedStore::open(&store, EmbeddedOptions::default()).expect("it opens again"));
    assert_eq!(mode(&path), 0o600, "a file made with other rights is tightened");
}
