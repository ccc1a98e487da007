//! Sockets: TCP or Unix, with TLS or without, in two halves.
//!
//! The read half belongs to the driver. The write half is shared, so that whoever has a request writes it, without
//! handing it to another task first.

use std::{
    io::{self, Read, Write},
    os::fd::AsFd,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use rustix::net::sockopt;
use rustls::ClientConnection;
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::{TcpStream, UnixStream, tcp, unix},
};

/// As much as a TLS record holds, and its frame.
const RECORD: usize = 17 << 10;

#[derive(Debug)]
enum ReadHalf {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
}

#[derive(Debug)]
enum WriteHalf {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
}

type Session = Arc<Mutex<ClientConnection>>;

fn locked(session: &Session) -> MutexGuard<'_, ClientConnection> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What comes in.
#[derive(Debug)]
pub(super) struct Reader {
    socket: ReadHalf,
    tls: Option<Encrypted>,
}

#[derive(Debug)]
struct Encrypted {
    session: Session,
    /// What was read from the socket, and how much of it the session has had.
    records: Vec<u8>,
    taken: usize,
    length: usize,
}

/// What goes out.
#[derive(Debug)]
pub(super) struct Writer {
    socket: WriteHalf,
    tls: Option<Session>,
}

/// Connects to a host, by whichever of its addresses answers.
pub(super) async fn tcp(host: &str, port: u16) -> io::Result<(Reader, Writer)> {
    let stream = TcpStream::connect((host, port)).await?;
    // A request is written whole: there is nothing to wait for.
    stream.set_nodelay(true)?;
    // Finds a peer that is gone without a word while nothing is asked. What is asked has a time-out.
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, Duration::from_secs(15))?;
    sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(&stream, 3)?;
    let (read, write) = stream.into_split();
    Ok((Reader { socket: ReadHalf::Tcp(read), tls: None }, Writer { socket: WriteHalf::Tcp(write), tls: None }))
}

/// Connects to a Unix socket.
pub(super) async fn unix(path: &Path) -> io::Result<(Reader, Writer)> {
    let (read, write) = UnixStream::connect(path).await?.into_split();
    Ok((Reader { socket: ReadHalf::Unix(read), tls: None }, Writer { socket: WriteHalf::Unix(write), tls: None }))
}

/// Speaks TLS over a new connection.
pub(super) async fn encrypt(
    mut session: ClientConnection,
    mut reader: Reader,
    mut writer: Writer,
) -> io::Result<(Reader, Writer)> {
    // The requests that may pile up are limited before they come here.
    session.set_buffer_limit(None);
    let session = Arc::new(Mutex::new(session));
    reader.tls = Some(Encrypted { session: session.clone(), records: vec![0; RECORD], taken: 0, length: 0 });
    writer.tls = Some(session.clone());
    loop {
        writer.flush_all().await?;
        if !locked(&session).is_handshaking() {
            return Ok((reader, writer));
        }
        let fed = std::future::poll_fn(|context| reader.poll_feed(context)).await;
        if fed.is_err() {
            // The alert that says why. If it cannot be sent, the error is the one to tell.
            writer.flush().ok();
        }
        if !fed? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

impl Reader {
    /// Reads some bytes; none at the end.
    pub(super) fn poll_read(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let Some(tls) = &self.tls else { return self.socket.poll_read(context, out) };
            match locked(&tls.session).reader().read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            if !ready!(self.poll_feed(context))? {
                return Poll::Ready(Ok(0));
            }
        }
    }

    /// Gives the session more to decrypt. False at the end.
    fn poll_feed(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(true)) };
        if tls.taken == tls.length {
            tls.length = ready!(self.socket.poll_read(context, &mut tls.records))?;
            tls.taken = 0;
            if tls.length == 0 {
                return Poll::Ready(Ok(false));
            }
        }
        let mut session = locked(&tls.session);
        tls.taken += session.read_tls(&mut &tls.records[tls.taken..tls.length])?;
        session.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Poll::Ready(Ok(true))
    }
}

impl ReadHalf {
    /// Through `poll_read` and not `try_read`: after a read that did not fill the buffer it knows that there is no more,
    /// and saves the call that would only say so.
    fn poll_read(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(out);
        let done = match self {
            Self::Tcp(half) => Pin::new(half).poll_read(context, &mut buffer),
            Self::Unix(half) => Pin::new(half).poll_read(context, &mut buffer),
        };
        ready!(done)?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl Writer {
    /// Takes some of the bytes, without waiting. What it took may need a [`flush`](Self::flush).
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.tls {
            None => self.socket.try_write(bytes),
            Some(session) => locked(session).writer().write(bytes),
        }
    }

    /// Sends what was taken. An error of the kind `WouldBlock` if the socket takes no more for now.
    pub(super) fn flush(&self) -> io::Result<()> {
        let Some(session) = &self.tls else { return Ok(()) };
        let mut session = locked(session);
        while session.wants_write() {
            session.write_tls(&mut &self.socket)?;
        }
        Ok(())
    }

    /// Sends what was taken, however long that takes.
    pub(super) async fn flush_all(&self) -> io::Result<()> {
        loop {
            match self.flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                done => return done,
            }
        }
    }

    /// Writes all of it, however long that takes.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
        self.flush_all().await
    }

    async fn writable(&self) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll_writable(context)).await
    }

    /// Ready when the socket takes more.
    pub(super) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.socket {
            WriteHalf::Tcp(half) => half.as_ref().poll_write_ready(context),
            WriteHalf::Unix(half) => half.as_ref().poll_write_ready(context),
        }
    }

    /// Ends the connection for both sides, whoever still has a half of it.
    pub(super) fn shut_down(&self) {
        let socket = match &self.socket {
            WriteHalf::Tcp(half) => half.as_ref().as_fd(),
            WriteHalf::Unix(half) => half.as_ref().as_fd(),
        };
        // Fails only if it has ended already.
        rustix::net::shutdown(socket, rustix::net::Shutdown::Both).ok();
    }
}

impl WriteHalf {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(half) => half.try_write(bytes),
            Self::Unix(half) => half.try_write(bytes),
        }
    }
}

/// For the TLS session, which writes its records.
impl Write for &WriteHalf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
