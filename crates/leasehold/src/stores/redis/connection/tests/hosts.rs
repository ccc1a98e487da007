//! Where a connection lives.

use std::time::{Duration, Instant};

use leasehold_testkit::redis_server::RedisOptions;
use tokio::runtime::{Builder, Runtime};

use super::{ask, command, config, link_after, open, text};
use crate::stores::redis::connection::Connection;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn it_works_without_a_runtime() {
    let server = RedisOptions::new().start();
    let connection = pollster::block_on(open(&server.url()));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let connection = &connection;
            scope.spawn(move || {
                for round in 0..100 {
                    let word = format!("{thread}:{round}");
                    assert_eq!(pollster::block_on(ask(connection, ["ECHO", &word])).unwrap(), text(&word));
                }
            });
        }
    });
    // Its thread ends with it.
    drop(connection);
    let gone = || {
        std::fs::read_dir("/proc/self/task").unwrap().flatten().all(|task| {
            !std::fs::read_to_string(task.path().join("comm")).unwrap_or_default().starts_with("leasehold-redis")
        })
    };
    let until = Instant::now() + Duration::from_secs(10);
    while !gone() {
        assert!(Instant::now() < until, "the thread lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn it_moves_to_another_runtime_when_its_own_is_shut_down() {
    let server = RedisOptions::new().start();
    let first = runtime();
    let connection = first.block_on(open(&server.url()));
    assert_eq!(first.block_on(ask(&connection, ["ECHO", "1"])).unwrap(), text("1"));
    drop(first);
    runtime().block_on(async {
        let error = connection.link().unwrap_err();
        assert!(error.is_transient(), "{error}");
        let link = link_after(&connection, 1).await;
        assert_eq!(link.call(&command(["ECHO", "2"])).await.unwrap(), text("2"));
    });
}

#[tokio::test]
async fn a_caller_that_blocks_its_runtime_is_served_by_a_thread_of_the_connection() {
    let server = RedisOptions::new().start();
    // Blocks the only thread of this runtime.
    let connection = pollster::block_on(Connection::open_on_own_thread(config(&server.url()))).unwrap();
    assert_eq!(pollster::block_on(ask(&connection, ["ECHO", "x"])).unwrap(), text("x"));
}

#[test]
fn a_runtime_without_io_is_named() {
    let server = RedisOptions::new().start();
    let runtime = Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(Connection::open(config(&server.url()))).unwrap_err();
    assert!(error.hint().contains("enable_io"), "{error}");
}
