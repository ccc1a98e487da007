//! What tells one run of a machine's clock from another.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use rustix::io::Errno;

use super::faults::explain_io;
use crate::error::Error;

/// The run of the boot-time clock that this process lives in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// New at each boot: every holder of an earlier one is dead.
    pub(super) boot_id: String,
    /// Processes of another time namespace read other times from the same clock. Empty on a kernel without them.
    pub(super) time_namespace: String,
}

impl Host {
    /// Of this process.
    pub(super) fn this() -> Result<Self, Error> {
        let boot_id = "/proc/sys/kernel/random/boot_id";
        let boot_id = read_short(boot_id).map_err(|error| {
            if let Some(Errno::MFILE | Errno::NFILE) = Errno::from_io_error(&error) {
                return explain_io("open", Path::new(boot_id), error);
            }
            Error::refused(
                "the boot id of this machine cannot be read",
                "the embedded store needs /proc, as Linux has it",
            )
            .because(error)
        })?;
        let time_namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
        Ok(Self { boot_id, time_namespace: time_namespace.to_string_lossy().into_owned() })
    }
}

/// A line of the kernel's, in one read.
fn read_short(path: &str) -> io::Result<String> {
    let mut line = [0; 64];
    let length = File::open(path)?.read(&mut line)?;
    let line = str::from_utf8(&line[..length]).map_err(io::Error::other)?.trim_end();
    if line.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(line.to_owned()) }
}
