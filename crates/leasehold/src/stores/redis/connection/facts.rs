//! What a server says of itself when we connect.

use super::fault::Fault;

/// The sections of INFO that are read. Not CONFIG, which managed services block.
pub(super) const SECTIONS: [&str; 5] = ["server", "replication", "memory", "persistence", "cluster"];

/// A server, as INFO describes it.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    info: Box<str>,
}

impl Facts {
    pub(crate) fn parse(info: &str) -> Self {
        Self { info: info.into() }
    }

    /// What INFO says under this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.info.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Changes with each start of the server.
    pub(crate) fn run_id(&self) -> &str {
        self.get("run_id").unwrap_or_default()
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.get("role") == Some("master")
    }

    pub(crate) fn is_loading(&self) -> bool {
        matches!(self.get("loading"), Some("1")) || matches!(self.get("async_loading"), Some("1"))
    }

    /// In bytes; 0 is no limit.
    pub(crate) fn maxmemory(&self) -> u64 {
        self.get("maxmemory").and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn maxmemory_policy(&self) -> &str {
        self.get("maxmemory_policy").unwrap_or("noeviction")
    }

    /// Whether it throws keys away when it is full.
    pub(crate) fn evicts(&self) -> bool {
        self.maxmemory() > 0 && self.maxmemory_policy() != "noeviction"
    }

    pub(crate) fn cluster_enabled(&self) -> bool {
        self.get("cluster_enabled") == Some("1")
    }

    /// `Redis 7.0.15`, `Valkey 8.0.1`.
    pub(crate) fn version(&self) -> String {
        match (self.get("valkey_version"), self.get("redis_version")) {
            (Some(version), _) => format!("Valkey {version}"),
            (None, Some(version)) => format!("Redis {version}"),
            (None, None) => "a server without a version".to_owned(),
        }
    }

    /// Refuses what cannot keep locks.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let major = |name: &str| self.get(name)?.split('.').next()?.parse::<u32>().ok();
        // Every Valkey is a Redis 7.2 or later.
        if major("valkey_version").or(major("redis_version")).is_none_or(|major| major < 7) {
            return Err(too_old(&self.version()));
        }
        if self.is_loading() {
            return Err(super::fault::refusal("LOADING"));
        }
        if !self.is_primary() {
            return Err(super::fault::refusal("READONLY"));
        }
        if self.run_id().is_empty() {
            return Err(Fault::refused(
                "the server does not say which run of it this is",
                "INFO must show its run_id: without it a restart that lost locks could not be noticed",
            ));
        }
        Ok(())
    }
}

pub(super) fn too_old(version: &str) -> Fault {
    Fault::refused(format!("{version} is too old"), "Redis 7.0 or later, or Valkey, is needed")
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n\r\n# Replication\r\nrole:master\r\n\
                        # Memory\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\nloading:0\r\ncluster_enabled:0\r\n";

    #[test]
    fn facts_are_found_by_name() {
        let facts = Facts::parse(INFO);
        assert_eq!((facts.run_id(), facts.version().as_str(), facts.get("nope")), ("abc", "Redis 7.0.15", None));
        assert!(facts.is_primary() && !facts.is_loading() && !facts.cluster_enabled());
        assert!(facts.check().is_ok());
    }

    #[test]
    fn a_policy_evicts_only_where_there_is_a_limit() {
        assert!(!Facts::parse(INFO).evicts());
        assert!(Facts::parse(&INFO.replace("maxmemory:0", "maxmemory:1000")).evicts());
        let never = INFO.replace("maxmemory:0", "maxmemory:1000").replace("allkeys-lru", "noeviction");
        assert!(!Facts::parse(&never).evicts());
    }

    #[test]
    fn what_cannot_keep_locks_is_refused() {
        for (from, to, transient) in [
            ("7.0.15", "6.2.14", false),
            ("role:master", "role:slave", false),
            ("loading:0", "loading:1", true),
            ("run_id:abc", "run_id:", false),
            ("redis_version", "other_version", false),
        ] {
            let fault = Facts::parse(&INFO.replace(from, to)).check().unwrap_err();
            assert_eq!(fault.is_transient(), transient, "{fault:?}");
        }
        let valkey = INFO.replace("redis_version:7.0.15", "redis_version:7.2.4\r\nvalkey_version:8.1.0");
        assert_eq!(Facts::parse(&valkey).version(), "Valkey 8.1.0");
        assert!(Facts::parse(&valkey).check().is_ok());
    }
}
