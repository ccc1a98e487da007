//! Where the database lies: the path is checked and made before SQLite sees it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, StatxAttributes, StatxFlags},
    process::geteuid,
};

use super::{
    faults::explain_io,
    filesystem::{self, Reach},
};
use crate::error::Error;

/// A database file that exists on a local file system.
#[derive(Debug)]
pub(super) struct Place {
    /// Absolute, and the same for all who mean this file.
    pub(super) path: PathBuf,
    file: FileId,
    /// What the files beside it get, like the log that SQLite keeps there: who may use one may use all.
    access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: (u32, u32),
    inode: u64,
}

/// Owner and permissions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    mode: u32,
    uid: u32,
    gid: u32,
}

impl Place {
    /// Checks the path of a store URL, and makes the file, empty, if it is not there.
    pub(super) fn prepare(text: &str) -> Result<Self, Error> {
        let path = absolute(text)?;
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(&path)?,
            Err(error) => return Err(explain_io("open", &path, error)),
        };
        let status = status(&path).map_err(|error| explain_io("open", &path, error))?;
        match FileType::from_raw_mode(status.stx_mode.into()) {
            FileType::RegularFile => {}
            FileType::Directory => {
                return Err(Error::invalid(
                    format!("{} is a directory", path.display()),
                    format!("name a file in it: sqlite:{}/leases.db", path.display()),
                ));
            }
            _ => {
                return Err(Error::invalid(
                    format!("{} is not a file", path.display()),
                    "name a file, or one that does not exist yet: sqlite:/path/leases.db",
                ));
            }
        }
        require_local(&path, device_of(&status))?;
        // SQLite finds the log by the name of the database, so that one file by two names has two logs.
        if status.stx_nlink > 1 || status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Err(Error::invalid(
                format!("{} can be reached by several names, and its log by one of them only", path.display()),
                "remove the hard links; into a container, mount the directory instead of the file",
            ));
        }
        let file = FileId { device: device_of(&status), inode: status.stx_ino };
        let access = Access { mode: u32::from(status.stx_mode) & 0o666, uid: status.stx_uid, gid: status.stx_gid };
        Ok(Self { path, file, access })
    }

    /// Whether the path still leads to the file that was opened.
    pub(super) fn require_unmoved(&self) -> Result<(), Error> {
        let found = status(&self.path).map(|status| FileId { device: device_of(&status), inode: status.stx_ino });
        if found.is_ok_and(|file| file == self.file) {
            return Ok(());
        }
        Err(Error::refused(
            format!("{} was removed or replaced while it was in use", self.path.display()),
            "start the programs that use it again; their leases there are lost",
        ))
    }

    /// The path of a file beside the database.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    pub(super) fn access(&self) -> Access {
        self.access
    }
}

impl Access {
    pub(super) fn file_mode(self) -> u32 {
        self.mode
    }

    pub(super) fn owner(self) -> u32 {
        self.uid
    }

    /// Who may read the database may enter the directory beside it.
    pub(super) fn directory_mode(self) -> u32 {
        self.mode | (self.mode & 0o444) >> 2
    }

    /// Root working on the database of another leaves nothing behind that its owner cannot use.
    pub(super) fn new_owner(self) -> Option<(u32, u32)> {
        geteuid().is_root().then_some((self.uid, self.gid))
    }

    /// Gives a file that we have just made what the database has: the umask may have taken some of it.
    pub(super) fn give(self, file: &File) -> io::Result<()> {
        rustix::fs::fchmod(file, Mode::from_raw_mode(self.mode))?;
        match self.new_owner() {
            Some((uid, gid)) => fchown(file, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }
}

fn absolute(text: &str) -> Result<PathBuf, Error> {
    const EXAMPLE: &str = "write sqlite:/path/leases.db";
    let refuse = |why: &str, hint: &str| Err(Error::invalid(format!("sqlite:{text} is not a store: {why}"), hint));
    match text {
        "" => return refuse("it has no path", EXAMPLE),
        ":memory:" => return refuse("leases in memory have a store of their own", "write memory:"),
        _ => {}
    }
    if text.contains('\0') {
        return Err(Error::invalid("the path of the store contains a NUL", EXAMPLE));
    }
    if text.starts_with("//") && !text.starts_with("///") {
        return refuse("a file has no host", &format!("write sqlite:{}", &text[1..]));
    }
    if text == "~" || text.starts_with("~/") {
        return refuse("the shell did not replace the ~", &format!("write \"sqlite:$HOME{}\"", &text[1..]));
    }
    if text.ends_with('/') || text.ends_with("/.") || text.ends_with("/..") || text == "." || text == ".." {
        return refuse(
            "it names a directory",
            &format!("name a file in it: sqlite:{}/leases.db", text.trim_end_matches('/')),
        );
    }
    std::path::absolute(text).map_err(|error| {
        Error::invalid(format!("sqlite:{text} is relative, and there is no current directory"), EXAMPLE).because(error)
    })
}

/// Makes the file, for us alone, and the directories that are missing.
fn create(path: &Path) -> Result<PathBuf, Error> {
    let parent = path.parent().expect("an absolute path that names a file has a parent");
    let existing = parent.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    let status = status(existing).map_err(|error| explain_io("make a database in", parent, error))?;
    require_local(existing, device_of(&status))?;

    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(parent)
        .map_err(|error| explain_io("make the directory", parent, error))?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => {}
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(explain_io("make", path, error)),
    }
    // After a power cut a directory that was not synced may be gone, and the fences with it.
    let new = parent.ancestors().take_while(|directory| directory.starts_with(existing));
    for directory in new {
        if let Err(error) = File::open(directory).and_then(|directory| directory.sync_all()) {
            tracing::debug!(directory = %directory.display(), %error, "a directory could not be synced");
        }
    }
    path.canonicalize().map_err(|error| {
        let dangling = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        let what = if dangling { "follow the symbolic link" } else { "open" };
        explain_io(what, path, error)
    })
}

fn status(path: &Path) -> io::Result<rustix::fs::Statx> {
    let wanted =
        StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::INO | StatxFlags::NLINK | StatxFlags::UID | StatxFlags::GID;
    Ok(rustix::fs::statx(CWD, path, AtFlags::empty(), wanted)?)
}

fn device_of(status: &rustix::fs::Statx) -> (u32, u32) {
    (status.stx_dev_major, status.stx_dev_minor)
}

fn require_local(path: &Path, (major, minor): (u32, u32)) -> Result<(), Error> {
    let found = rustix::fs::statfs(path).map_err(|error| explain_io("open", path, error.into()))?;
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the type differs between architectures")]
    let magic = found.f_type as u64 & 0xFFFF_FFFF;
    let mut name = None;
    let reach = match filesystem::by_magic(magic) {
        Reach::Unknown => {
            let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            name = filesystem::name_in(&table, major, minor).map(ToOwned::to_owned);
            name.as_deref().map_or(Reach::Shared, filesystem::by_name)
        }
        reach => reach,
    };
    if reach == Reach::Local {
        return Ok(());
    }
    let name = name.unwrap_or_else(|| format!("0x{magic:x}"));
    Err(Error::refused(
        format!("{} is on a file system ({name}) that other machines may share", path.display()),
        "the embedded store serves the processes of one machine: put it on a local disk, or use a store with a server",
    ))
}
