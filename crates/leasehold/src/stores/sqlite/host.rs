//! What tells one run of a machine's clock from another.

use std::fs;

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
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(|error| {
            Error::refused(
                "the boot id of this machine cannot be read",
                "the embedded store needs /proc, as Linux has it",
            )
            .because(error)
        })?;
        let time_namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
        Ok(Self {
            boot_id: boot_id.trim_end().to_owned(),
            time_namespace: time_namespace.to_string_lossy().into_owned(),
        })
    }
}
