use leasehold_testkit::redis_server::RedisOptions;

use super::{ask, open, refusal, text};
use crate::{Error, stores::redis::resp::Reply};

async fn works(url: &str) {
    let connection = open(url).await;
    assert_eq!(ask(&connection, ["ECHO", url]).await.unwrap(), text(url));
}

fn is_refused(error: &Error, hint: &str) {
    assert!(!error.is_transient(), "{error}");
    assert!(error.hint().contains(hint), "{error}: {}", error.hint());
}

#[tokio::test]
async fn a_unix_socket() {
    let server = RedisOptions::new().start();
    let url = format!("redis+unix://{}?db=3", server.socket().display());
    works(&url).await;
    ask(&open(&url).await, ["SET", "k", "v"]).await.unwrap();
    assert_eq!(server.cli(&["-n", "3", "GET", "k"]), "v");
    assert!(refusal("redis+unix:///no/such.sock").await.is_transient());
}

#[tokio::test]
async fn an_ipv6_address() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("this machine has no IPv6");
        return;
    }
    let server = RedisOptions::new().start();
    works(&format!("redis://[::1]:{}", server.port())).await;
    works(&format!("redis://localhost:{}", server.port())).await;
}

#[tokio::test]
async fn a_database() {
    let server = RedisOptions::new().start();
    let url = format!("{}/7", server.url());
    ask(&open(&url).await, ["SET", "k", "v"]).await.unwrap();
    assert_eq!(server.cli(&["-n", "7", "GET", "k"]), "v");
    assert_eq!(server.cli(&["GET", "k"]), "");
    let error = refusal(&format!("{}/99", server.url())).await;
    is_refused(&error, "databases");
    assert!(error.to_string().contains("99"), "{error}");
}

#[tokio::test]
async fn a_password() {
    let server = RedisOptions::new().password("p@ss").start();
    let at = format!("127.0.0.1:{}", server.port());
    works(&format!("redis://:p%40ss@{at}")).await;
    works(&format!("redis://default:p%40ss@{at}")).await;
    is_refused(&refusal(&format!("redis://:wrong@{at}")).await, "check both");
    is_refused(&refusal(&format!("redis://nobody:p%40ss@{at}")).await, "check both");
    let error = refusal(&format!("redis://{at}")).await;
    is_refused(&error, "redis://:password@host");
}

#[tokio::test]
async fn a_user() {
    let server = RedisOptions::new().set("user", "me on >pw ~lock:* &* +@all").start();
    let at = format!("127.0.0.1:{}", server.port());
    let connection = open(&format!("redis://me:pw@{at}")).await;
    assert_eq!(ask(&connection, ["SET", "lock:x", "v"]).await.unwrap(), Reply::Ok);
    assert_eq!(ask(&connection, ["SET", "y", "v"]).await.unwrap().error_code(), Some("NOPERM"));
    server.cli(&["ACL", "SETUSER", "blind", "on", ">pw", "~*", "+@all", "-info"]);
    let error = refusal(&format!("redis://blind:pw@{at}")).await;
    is_refused(&error, "INFO");
}

#[tokio::test]
async fn tls() {
    let server = RedisOptions::new().tls().set("bind", "127.0.0.1 127.0.0.2").start();
    let file = |name: &str| server.dir().join(name).display().to_string();
    let (port, ca) = (server.tls_port(), file("ca.crt"));
    works(&format!("rediss://localhost:{port}?ca={ca}")).await;
    let connection = open(&format!("rediss://127.0.0.1:{port}/2?ca={ca}")).await;
    // Several records, in both directions, and more than the socket takes at once.
    let value = "v".repeat(9_000_000);
    assert_eq!(ask(&connection, ["SET", "k", &value]).await.unwrap(), Reply::Ok);
    assert!(ask(&connection, ["GET", "k"]).await.unwrap() == text(&value));
    assert_eq!(server.cli(&["-n", "2", "STRLEN", "k"]), "9000000");

    is_refused(&refusal(&format!("rediss://localhost:{port}")).await, "?ca=");
    let error = refusal(&format!("redis://localhost:{port}")).await;
    assert!(error.hint().contains("rediss://"), "{error}: {}", error.hint());
    let error = refusal(&format!("rediss://localhost:{}?ca={ca}", server.port())).await;
    assert!(error.hint().contains("redis://"), "{error}: {}", error.hint());
    // A name that the certificate does not have.
    is_refused(&refusal(&format!("rediss://127.0.0.2:{port}?ca={ca}")).await, "host");
    for url in [format!("rediss://localhost:{port}?ca=/no/such/file"), format!("rediss://localhost?ca={}", file("log"))]
    {
        assert_eq!(refusal(&url).await.kind(), crate::ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn tls_with_a_certificate_of_our_own() {
    let server = RedisOptions::new().tls().set("tls-auth-clients", "yes").start();
    let file = |name: &str| server.dir().join(name).display().to_string();
    let url = format!("rediss://localhost:{}?ca={}", server.tls_port(), file("ca.crt"));
    works(&format!("{url}&cert={}&key={}", file("client.crt"), file("client.key"))).await;
    is_refused(&refusal(&url).await, "cert");
}

#[tokio::test]
async fn facts_are_the_servers_own() {
    let server = RedisOptions::new().set("maxmemory", "100mb").set("maxmemory-policy", "allkeys-lru").start();
    let connection = open(&server.url()).await;
    let link = connection.link().unwrap();
    let facts = link.facts();
    assert_eq!((facts.maxmemory(), facts.maxmemory_policy(), facts.evicts()), (100 << 20, "allkeys-lru", true));
    assert!(facts.version().starts_with("Redis 7."), "{}", facts.version());
    assert!(facts.is_primary() && !facts.is_loading() && !facts.cluster_enabled());
    assert_eq!(facts.run_id().len(), 40);
    let cluster = RedisOptions::new().set("cluster-enabled", "yes").start();
    assert!(open(&cluster.url()).await.link().unwrap().facts().cluster_enabled());
}
