//! What a lock protects: a number that is changed in two steps, and a register that looks at fences.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};

/// Adds one to the number in a file in the naive way: reads, thinks, writes. Without a lock, updates get lost.
pub fn add_one(path: &Path, pause: Duration) -> u64 {
    let before: u64 = std::fs::read_to_string(path).unwrap_or_default().trim().parse().unwrap_or(0);
    std::thread::sleep(pause);
    // Renamed into place: nobody reads half a number.
    let new = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&new, format!("{}\n", before + 1)).unwrap();
    std::fs::rename(&new, path).unwrap();
    before + 1
}

/// Writes `value` into a register. With a fence, the register refuses whoever comes with a smaller one than it has seen;
/// that check and the write are one step.
pub fn write(path: &Path, value: &str, fence: Option<u64>) -> bool {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let (_, seen) = contents(&mut file);
    if fence.is_some_and(|fence| fence < seen) {
        return false;
    }
    let seen = seen.max(fence.unwrap_or(0));
    file.set_len(0).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    write!(file, "{seen} {value}").unwrap();
    true
}

/// The value of a register.
pub fn read(path: &Path) -> String {
    contents(&mut File::open(path).unwrap()).0
}

fn contents(file: &mut File) -> (String, u64) {
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    match text.split_once(' ') {
        Some((seen, value)) => (value.to_owned(), seen.parse().unwrap()),
        None => (String::new(), 0),
    }
}
