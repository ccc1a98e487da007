//! The connection alone, for the project's own benchmarks. It promises nothing to anyone else.

use std::{fmt, sync::Arc};

use super::{
    connection::{Config, Connection, Limits, accepted},
    resp::{Arg, Reply, Script},
    url::RedisUrl,
};
use crate::{Error, clock::SystemClock, entropy::SystemEntropy};

const DELETE_IF_EQUAL: &str =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

/// A connection.
pub struct Wire {
    connection: Connection,
    delete: Script,
}

impl Wire {
    /// Connects.
    pub async fn open(url: &str) -> Result<Self, Error> {
        let config = Config {
            target: RedisUrl::parse(url)?.target,
            name: "leasehold-bench".into(),
            channels: Vec::new(),
            on_push: Arc::new(drop),
            limits: Limits::default(),
            clock: SystemClock::shared(),
            entropy: Arc::new(SystemEntropy),
        };
        Ok(Self { connection: Connection::open(config).await?, delete: Script::new(DELETE_IF_EQUAL) })
    }

    /// `SET key value NX PX ttl`.
    pub async fn set_if_absent(&self, key: &str, value: &str, ttl_ms: i64) -> Result<bool, Error> {
        let request = ["SET".into(), key.into(), value.into(), "NX".into(), "PX".into(), Arg::Int(ttl_ms)];
        let reply = self.connection.link()?.call(&request).await?;
        accepted(reply).map(|reply| reply == Reply::Ok)
    }

    /// A script, by its hash.
    pub async fn delete_if_equal(&self, key: &str, value: &str) -> Result<bool, Error> {
        let reply = self.connection.link()?.eval(&self.delete, &[key.into()], &[value.into()]).await?;
        Ok(reply.int() == Some(1))
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}
