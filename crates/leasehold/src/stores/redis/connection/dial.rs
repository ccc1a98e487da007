//! From a URL to a server that is ready for us.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};

use super::{
    Push,
    exchange::{Exchange, io_fault},
    facts::{Facts, SECTIONS, too_old},
    fault::{Fault, refusal},
    tls, wire,
};
use crate::{
    Error,
    clock::Clock,
    stores::redis::{
        resp::{Arg, Frame, Reply, Request},
        url::{Address, Login, Place, Target},
    },
};

/// Connects, again and again.
#[derive(Debug)]
pub(super) struct Dialer {
    target: Target,
    tls: Option<Arc<ClientConfig>>,
    /// What CLIENT LIST shows.
    name: String,
    clock: Arc<dyn Clock>,
    patience: Duration,
    /// The sentinel to ask first: one that answered before.
    sentinel: AtomicUsize,
}

/// A server that is ready for us.
#[derive(Debug)]
pub(super) struct Dialed {
    pub(super) exchange: Exchange,
    pub(super) facts: Facts,
    /// Messages that came before anyone could be told.
    pub(super) early: Vec<Push>,
}

impl Dialer {
    pub(super) fn new(target: Target, name: &str, clock: Arc<dyn Clock>, patience: Duration) -> Result<Self, Error> {
        let tls = match &target.place {
            Place::Tcp { tls: Some(tls), .. } => Some(tls::config(tls)?),
            _ => None,
        };
        Ok(Self { target, tls, name: name.to_owned(), clock, patience, sentinel: AtomicUsize::new(0) })
    }

    /// A connection that has logged in, chosen its database and subscribed to the channels.
    pub(super) async fn dial(&self, channels: &[Box<[u8]>]) -> Result<Dialed, Fault> {
        let place = match &self.target.place {
            Place::Tcp { address, .. } => address.to_string(),
            Place::Unix(path) => path.display().to_string(),
            Place::Sentinel { primary, .. } => format!("the primary {primary:?}"),
        };
        let dialed = async {
            match &self.target.place {
                Place::Tcp { address, .. } => self.meet(self.connect(address).await?, channels, false).await,
                Place::Unix(path) => {
                    let halves = wire::unix(path).await.map_err(|error| io_fault(&error))?;
                    self.meet(Exchange::new(halves), channels, false).await
                }
                Place::Sentinel { sentinels, primary } => {
                    let address = self.find(sentinels, primary).await?;
                    let met = match self.connect(&address).await {
                        Ok(exchange) => self.meet(exchange, channels, true).await,
                        Err(fault) => Err(fault),
                    };
                    met.map_err(|fault| {
                        // It may not know of the failover yet: ask another next time.
                        self.sentinel.fetch_add(1, Ordering::Relaxed);
                        fault.at(&address.to_string())
                    })
                }
            }
        };
        self.within(self.patience, dialed).await.map_err(|fault| match &self.target.login {
            Some(login) => fault.without(&login.password).at(&place),
            None => fault.at(&place),
        })
    }

    async fn connect(&self, address: &Address) -> Result<Exchange, Fault> {
        let Address { host, port } = address;
        let (reader, writer) = wire::tcp(host, *port).await.map_err(|error| io_fault(&error))?;
        let Some(config) = &self.tls else { return Ok(Exchange::new((reader, writer))) };
        let session = ServerName::try_from(host.clone())
            .ok()
            .and_then(|name| ClientConnection::new(config.clone(), name).ok())
            .ok_or_else(|| {
                Fault::refused("no certificate can name this host", "look at the host in the store's URL")
            })?;
        wire::encrypt(session, reader, writer).await.map(Exchange::new).map_err(|error| io_fault(&error))
    }

    /// Everything in one round trip: who opens a store for one lock pays for each.
    async fn meet(&self, mut exchange: Exchange, channels: &[Box<[u8]>], elected: bool) -> Result<Dialed, Fault> {
        let mut requests = Vec::new();
        let mut hello: Vec<Arg<'_>> = vec!["HELLO".into(), "3".into()];
        if let Some(Login { user, password }) = &self.target.login {
            hello.extend(["AUTH", user, password].map(Arg::from));
        }
        hello.extend(["SETNAME", &self.name].map(Arg::from));
        hello.as_slice().encode(&mut requests);
        if self.target.db != 0 {
            ["SELECT".into(), i64::from(self.target.db).into()].encode(&mut requests);
        }
        let info: Vec<Arg<'_>> = std::iter::once("INFO").chain(SECTIONS).map(Arg::from).collect();
        info.as_slice().encode(&mut requests);
        if elected {
            ["ROLE".into()].encode(&mut requests);
        }
        for channel in channels {
            ["SUBSCRIBE".into(), Arg::Bytes(channel)].encode(&mut requests);
        }
        exchange.send(&requests).await?;

        greeted(&exchange.reply().await?)?;
        if self.target.db != 0
            && let Reply::Error(text) = exchange.reply().await?
        {
            return Err(Fault::refused(
                format!("there is no database {} for us ({text})", self.target.db),
                "see `databases` in the server's configuration; a cluster has 0 alone",
            ));
        }
        let info = exchange.accepted().await?;
        let facts = Facts::parse(info.text().unwrap_or_default());
        // A replica that Sentinel names is about to become the primary, or just was it.
        facts.check().map_err(|fault| if elected { fault.for_now() } else { fault })?;
        if elected {
            let role = exchange.accepted().await?;
            if role.items().and_then(<[_]>::first).and_then(Reply::text) != Some("master") {
                return Err(refusal("READONLY").for_now());
            }
        }
        let mut early = Vec::new();
        let mut missing = channels.len();
        while missing > 0 {
            match exchange.next().await? {
                Frame::Push(push) if push[0].text() == Some("subscribe") => missing -= 1,
                Frame::Push(push) => early.push(push),
                Frame::Reply(Reply::Error(text)) => return Err(refusal(&text)),
                Frame::Reply(reply) => {
                    return Err(Fault::refused(
                        format!("the server answered SUBSCRIBE with {reply:?}"),
                        "is there a proxy in between that knows no RESP3?",
                    ));
                }
            }
        }
        Ok(Dialed { exchange, facts, early })
    }

    /// The primary's address, from the first sentinel that knows it.
    async fn find(&self, sentinels: &[Address], primary: &str) -> Result<Address, Fault> {
        // One that hangs must leave time for the others, and for the primary.
        let share = self.patience / u32::try_from(sentinels.len() + 1).unwrap_or(u32::MAX);
        let first = self.sentinel.load(Ordering::Relaxed);
        let mut fault = None;
        for turn in first..first + sentinels.len() {
            let sentinel = &sentinels[turn % sentinels.len()];
            match self.within(share, self.ask_sentinel(sentinel, primary)).await {
                Ok(address) => {
                    self.sentinel.store(turn % sentinels.len(), Ordering::Relaxed);
                    return Ok(address);
                }
                Err(failed) => {
                    let failed = failed.at(&format!("sentinel {sentinel}"));
                    // One that could not be asked may know better than those that could.
                    if fault.as_ref().is_none_or(|fault: &Fault| !fault.is_transient()) {
                        fault = Some(failed);
                    }
                }
            }
        }
        Err(fault.unwrap_or_else(|| Fault::refused("there are no sentinels", "name at least one in the store's URL")))
    }

    async fn ask_sentinel(&self, sentinel: &Address, primary: &str) -> Result<Address, Fault> {
        let halves = wire::tcp(&sentinel.host, sentinel.port).await.map_err(|error| io_fault(&error))?;
        let mut exchange = Exchange::new(halves);
        let question = ["SENTINEL", "get-master-addr-by-name", primary].map(Arg::from);
        let mut reply = exchange.ask(&question).await?;
        if reply.error_code() == Some("NOAUTH")
            && let Some(Login { user, password }) = &self.target.login
        {
            let login = ["AUTH", user, password].map(Arg::from);
            if let Reply::Error(text) = exchange.ask(&login).await? {
                return Err(refusal(&text));
            }
            reply = exchange.ask(&question).await?;
        }
        match &reply {
            Reply::Array(items) => {
                let host = items.first().and_then(Reply::text);
                let port = items.get(1).and_then(Reply::int).and_then(|port| u16::try_from(port).ok());
                host.zip(port).map(|(host, port)| Address { host: host.to_owned(), port }).ok_or_else(|| {
                    Fault::refused("its answer makes no sense", "is this a sentinel? Their port is 26379 as a rule")
                })
            }
            Reply::Nil => Err(Fault::refused(
                format!("it knows no primary {primary:?}"),
                "see SENTINEL MASTERS for the names that it knows",
            )),
            Reply::Error(text) if text.contains("unknown command") => {
                Err(Fault::refused("this is no sentinel", "their port is 26379 as a rule; a server itself is redis://"))
            }
            Reply::Error(text) => Err(refusal(text)),
            _ => Err(Fault::refused("its answer makes no sense", "is this a sentinel? Their port is 26379 as a rule")),
        }
    }

    /// Gives up after `span`.
    async fn within<T>(&self, span: Duration, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let mut timer = self.clock.timer().map_err(|error| Fault::io(&error))?;
        tokio::select! {
            done = work => done,
            () = timer.until(self.clock.now() + span) => {
                let message = format!("no answer within {}", humantime::format_duration(span));
                Err(Fault::transient(message, match self.tls {
                    None => "is the host right, and does a firewall let us through?",
                    // A server without TLS waits for the end of what it takes for a command.
                    Some(_) => "is the host right, does a firewall let us through, and does this port speak TLS \
                                (if not, write redis://)?",
                }))
            }
        }
    }
}

/// Judges the answer to HELLO.
fn greeted(reply: &Reply) -> Result<(), Fault> {
    if let Reply::Error(text) = reply {
        return Err(if text.contains("unknown command") || text.starts_with("NOPROTO") {
            too_old(&format!("this server, which knows no RESP3 ({text}),"))
        } else {
            refusal(text)
        });
    }
    let get = |name: &str| reply.get(name).and_then(Reply::text).unwrap_or_default();
    if get("mode") == "sentinel" {
        return Err(Fault::refused(
            "this is a sentinel, not a server that keeps keys",
            "write redis+sentinel://host:port/primary-name",
        ));
    }
    if reply.get("proto").and_then(Reply::int) != Some(3) {
        return Err(Fault::refused("this server does not speak RESP3", "Redis 7.0 or later, or Valkey, is needed"));
    }
    let version = get("version");
    // Before INFO, whose arguments older ones do not understand.
    match version.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major < 7 => Err(too_old(&format!("{} {version}", get("server")))),
        _ => Ok(()),
    }
}
