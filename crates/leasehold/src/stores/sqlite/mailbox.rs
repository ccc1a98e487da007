//! Wake-ups between processes: one datagram socket for each store that has somebody waiting.
//!
//! A datagram is a hint, and the record is what counts. That nobody listens on a socket is certain knowledge, though:
//! its process is gone.

use std::{
    fs::{self, DirBuilder},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            fs::{DirBuilderExt, FileTypeExt, MetadataExt},
            net::UnixDatagram,
        },
    },
    path::{Path, PathBuf},
    sync::{self, OnceLock, PoisonError},
    time::Duration,
};

use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Uid, chownat, open, unlinkat},
    io::Errno,
    process::geteuid,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, Notify, mpsc};

use super::place::{Access, Place};
use crate::{
    engine::{News, Wake},
    error::Error,
    id::{AttemptId, ClientId},
    name::Name,
    store::Hint,
};

/// The first byte of each datagram.
const FORMAT: u8 = 1;

/// Longer than any datagram of ours, so that a longer one is seen to be none.
const LONGEST: usize = 1024;

/// The socket of a process that is gone is kept so long, in seconds: until then it tells those who send to it that
/// they wait in vain.
const KEPT: i64 = 600;

/// One store in so many looks for them.
const CARETAKERS: u64 = 16;

/// The ways to so many others are kept: finding one takes longer than sending.
const PEERS: usize = 16;

/// How long a send may wait for a full socket to be read, where waiting is allowed.
const PATIENCE: Duration = Duration::from_millis(50);

/// What a send came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// On its way, or nobody can tell.
    Perhaps,
    /// That process is gone.
    Nobody,
    /// The receiver has not read its earlier ones yet.
    Full(Vec<u8>),
}

/// The socket of one store, and the way to the others'.
#[derive(Debug)]
pub(super) struct Mailbox {
    client: ClientId,
    path: PathBuf,
    access: Access,
    directory: OnceLock<OwnedFd>,
    /// `None` if it could not be made.
    socket: OnceLock<Option<UnixDatagram>>,
    made: Notify,
    /// The ways to those whom we told something lately.
    peers: sync::Mutex<Vec<(ClientId, UnixDatagram)>>,
    /// For hints to ourselves.
    own: mpsc::UnboundedSender<Hint>,
    reader: Mutex<Reader>,
}

#[derive(Debug)]
struct Reader {
    own: mpsc::UnboundedReceiver<Hint>,
    socket: Option<tokio::net::UnixDatagram>,
}

#[derive(Serialize, Deserialize)]
struct Letter<'a> {
    name: &'a str,
    id: AttemptId,
    news: News,
}

impl Mailbox {
    pub(super) fn new(place: &Place, client: ClientId) -> Self {
        let (own, hints) = mpsc::unbounded_channel();
        Self {
            client,
            path: directory_of(place),
            access: place.access(),
            directory: OnceLock::new(),
            socket: OnceLock::new(),
            made: Notify::new(),
            peers: sync::Mutex::default(),
            own,
            reader: Mutex::new(Reader { own: hints, socket: None }),
        }
    }

    /// Whose it is.
    pub(super) fn client(&self) -> ClientId {
        self.client
    }

    /// Makes the socket if it is not there. `false` if that cannot be done here. The caller has the turnstile, so that
    /// nobody takes a socket that is just being made for a dead one.
    pub(super) fn open(&self) -> bool {
        let socket = self.socket.get_or_init(|| {
            let socket = self.bind();
            if let Err(error) = &socket {
                tracing::warn!(%error, "waiters here cannot be woken, and ask again and again: no socket can be made");
            }
            socket.ok()
        });
        self.made.notify_one();
        socket.is_some()
    }

    /// Whether it was tried in vain.
    pub(super) fn is_barred(&self) -> bool {
        self.socket.get().is_some_and(Option::is_none)
    }

    fn bind(&self) -> io::Result<UnixDatagram> {
        let owner = self.access.new_owner().map(|(uid, gid)| (Uid::from_raw(uid), Gid::from_raw(gid)));
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Ok(()) => {
                let mode = Mode::from_raw_mode(self.access.directory_mode());
                rustix::fs::chmod(&self.path, mode)?;
                if let Some((uid, gid)) = owner {
                    rustix::fs::chown(&self.path, Some(uid), Some(gid))?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let directory = self.directory()?;
        let name = file_of(self.client);
        let socket = UnixDatagram::bind(address(directory, &name))?;
        rustix::fs::chmodat(directory, &name, Mode::from_raw_mode(self.access.file_mode()), AtFlags::empty())?;
        if let Some((uid, gid)) = owner {
            chownat(directory, &name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        socket.set_nonblocking(true)?;
        if self.client.bits().is_multiple_of(CARETAKERS) {
            self.remove_dead(directory);
        }
        Ok(socket)
    }

    fn directory(&self) -> io::Result<&OwnedFd> {
        if let Some(directory) = self.directory.get() {
            return Ok(directory);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = open(&self.path, flags, Mode::empty())?;
        // Whoever owns it can make a living socket look dead.
        let owner = rustix::fs::fstat(&directory)?.st_uid;
        if ![geteuid().as_raw(), self.access.owner(), 0].contains(&owner) {
            return Err(io::Error::other(format!("{} belongs to another user", self.path.display())));
        }
        Ok(self.directory.get_or_init(|| directory))
    }

    /// Removes what processes that were killed have left behind. Our own socket, just made, tells the time.
    fn remove_dead(&self, directory: &OwnedFd) {
        let own = file_of(self.client);
        let Ok(now) = fs::symlink_metadata(address(directory, &own)).map(|own| own.mtime()) else { return };
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for entry in entries.flatten() {
            let old = entry.metadata().is_ok_and(|found| now - found.mtime() > KEPT);
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| old && *name != own) else { continue };
            let probe = UnixDatagram::unbound().and_then(|probe| probe.connect(address(directory, name)));
            if probe.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                tracing::debug!(socket = name, "removed a dead socket");
                let _ = unlinkat(directory, name, AtFlags::empty());
            }
        }
    }

    /// Sends without waiting.
    pub(super) fn send(&self, name: &Name, wake: &Wake) -> Sent {
        if wake.client == self.client {
            let _ = self.own.send(Hint { name: name.clone(), id: wake.id, news: wake.news });
            return Sent::Perhaps;
        }
        let letter = Letter { name: name.as_str(), id: wake.id, news: wake.news };
        match postcard::to_extend(&letter, vec![FORMAT]) {
            Ok(letter) => self.post(wake.client, letter),
            Err(error) => {
                tracing::warn!(%error, "a hint could not be written");
                Sent::Perhaps
            }
        }
    }

    fn post(&self, client: ClientId, letter: Vec<u8>) -> Sent {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = peers.iter().position(|(peer, _)| *peer == client);
        let sent = match known.map_or_else(|| self.connect(client, &mut peers), Ok) {
            Ok(index) => {
                let sent = peers[index].1.send(&letter);
                if sent.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
                    peers.remove(index);
                }
                sent
            }
            Err(error) => Err(error),
        };
        match sent {
            Ok(_) => Sent::Perhaps,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Sent::Nobody,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Full(letter),
            // It never had a socket, or left in good order; or somebody removed the file, and it lives.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Sent::Perhaps,
            Err(error) => unsent(&error),
        }
    }

    /// Where in `peers` the way to that client is now.
    fn connect(&self, client: ClientId, peers: &mut Vec<(ClientId, UnixDatagram)>) -> io::Result<usize> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect(address(self.directory()?, &file_of(client)))?;
        if peers.len() >= PEERS {
            peers.remove(0);
        }
        peers.push((client, socket));
        Ok(peers.len() - 1)
    }

    /// Sends, and waits a moment for the receiver to read what it has.
    pub(super) fn post_patiently(&self, client: ClientId, letter: &[u8]) {
        let sent = self.directory().and_then(|directory| {
            let sender = UnixDatagram::unbound()?;
            sender.set_write_timeout(Some(PATIENCE))?;
            sender.send_to(letter, address(directory, &file_of(client)))
        });
        if let Err(error) = sent {
            unsent(&error);
        }
    }

    /// The next hint. Nothing is lost when this is dropped.
    pub(super) async fn next(&self) -> Result<Hint, Error> {
        let mut reader = self.reader.lock().await;
        let Reader { own, socket } = &mut *reader;
        // An earlier call may have been on a runtime that has ended since.
        let mut registered_here = false;
        loop {
            if socket.is_none()
                && let Some(Some(made)) = self.socket.get()
            {
                registered_here = true;
                let registered = made.try_clone().and_then(tokio::net::UnixDatagram::from_std);
                *socket = Some(registered.map_err(unheard)?);
            }
            let mut letter = [0; LONGEST];
            tokio::select! {
                Some(hint) = own.recv() => return Ok(hint),
                () = self.made.notified(), if socket.is_none() => {}
                received = receive(socket.as_ref(), &mut letter) => match received {
                    Ok(length) => {
                        if let Some(hint) = read(&letter[..length]) {
                            return Ok(hint);
                        }
                        tracing::debug!(length, "ignored a datagram that is not ours");
                    }
                    Err(error) => {
                        *socket = None;
                        if registered_here {
                            return Err(unheard(error));
                        }
                    }
                },
            }
        }
    }

    /// Removes the socket's name, unless waiters of ours are left: it then shows others that they wait in vain.
    pub(super) fn close(&self, waiters_left: bool) {
        if let (Some(Some(_)), Some(directory), false) = (self.socket.get(), self.directory.get(), waiters_left) {
            let _ = unlinkat(directory, file_of(self.client), AtFlags::empty());
        }
    }
}

/// Removes all sockets: at the first use after a boot they are all dead. The caller has the turnstile.
pub(super) fn clear(place: &Place) {
    let directory = directory_of(place);
    if !fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir()) {
        return;
    }
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|found| found.is_socket()) {
            continue;
        }
        if let Err(error) = fs::remove_file(entry.path()) {
            tracing::debug!(%error, path = %entry.path().display(), "a socket of an earlier boot stays");
        }
    }
}

fn directory_of(place: &Place) -> PathBuf {
    place.beside("-wake")
}

fn file_of(client: ClientId) -> String {
    format!("{:016x}", client.bits())
}

/// By way of the directory's descriptor, since an address has no room for a long path.
fn address(directory: &OwnedFd, name: &str) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name)
}

async fn receive(socket: Option<&tokio::net::UnixDatagram>, letter: &mut [u8]) -> io::Result<usize> {
    match socket {
        Some(socket) => socket.recv(letter).await,
        None => std::future::pending().await,
    }
}

fn read(bytes: &[u8]) -> Option<Hint> {
    let (&FORMAT, bytes) = bytes.split_first()? else { return None };
    match postcard::take_from_bytes::<Letter>(bytes) {
        Ok((letter, [])) => Some(Hint { name: Name::new(letter.name).ok()?, id: letter.id, news: letter.news }),
        _ => None,
    }
}

fn unsent(error: &io::Error) -> Sent {
    // A waiter that is not told asks by itself, later.
    if Errno::from_io_error(error) != Some(Errno::AGAIN) {
        tracing::debug!(%error, "a hint could not be sent");
    }
    Sent::Perhaps
}

fn unheard(error: io::Error) -> Error {
    Error::unavailable("wake-ups cannot be received", "waiters ask by themselves, later").because(error)
}
