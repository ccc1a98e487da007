use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold_testkit::redis_server::RedisOptions;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{ask, command, link_after, listening, text};
use crate::stores::redis::{connection::Push, resp::Reply};

fn message(channel: &str, payload: &str) -> Push {
    vec![text("message"), text(channel), text(payload)]
}

/// The next, which must not be long in coming.
async fn next<T>(messages: &mut UnboundedReceiver<T>) -> T {
    let message = tokio::time::timeout(Duration::from_secs(30), messages.recv()).await;
    message.expect("a message comes").expect("the connection lives")
}

#[tokio::test]
async fn a_message_is_handed_over_before_the_reply_that_came_after_it() {
    let server = RedisOptions::new().start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let list = seen.clone();
    let connection = listening(&server.url(), "me", Arc::new(move |push| list.lock().unwrap().push(push))).await;
    for round in 0..100 {
        let payload = round.to_string();
        assert_eq!(ask(&connection, ["PUBLISH", "me", &payload]).await.unwrap(), Reply::Int(1));
        assert_eq!(seen.lock().unwrap().pop(), Some(message("me", &payload)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_and_replies_do_not_get_mixed_up() {
    let server = RedisOptions::new().start();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let on_push = Arc::new(move |push: Push| {
        assert_eq!(push[0], text("message"));
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let connection = Arc::new(listening(&server.url(), "me", on_push).await);
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let connection = connection.clone();
            tokio::spawn(async move {
                for round in 0..100 {
                    let word = format!("{task}:{round}");
                    assert_eq!(ask(&connection, ["PUBLISH", "me", "x"]).await.unwrap(), Reply::Int(1));
                    assert_eq!(ask(&connection, ["ECHO", &word]).await.unwrap(), text(&word));
                    if round % 25 == 0 {
                        connection.subscribe(format!("c{task}:{round}").as_bytes()).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), 3200);
}

#[tokio::test]
async fn subscriptions_are_made_again_on_a_new_connection() {
    let mut server = RedisOptions::new().start();
    let (sender, mut messages) = tokio::sync::mpsc::unbounded_channel();
    let on_push = Arc::new(move |push| sender.send(push).unwrap());
    let connection = listening(&server.url(), "first", on_push).await;
    connection.subscribe(b"second").await.unwrap();
    for epoch in 1..3 {
        server.restart();
        let link = link_after(&connection, epoch).await;
        for channel in ["first", "second"] {
            assert_eq!(link.call(&command(["PUBLISH", channel, "x"])).await.unwrap(), Reply::Int(1));
            assert_eq!(next(&mut messages).await, message(channel, "x"));
        }
    }
}

#[tokio::test]
async fn a_channel_that_is_added_while_there_is_no_connection_is_subscribed_to_later() {
    let mut server = RedisOptions::new().start();
    let (sender, mut messages) = tokio::sync::mpsc::unbounded_channel();
    let on_push = Arc::new(move |push| sender.send(push).unwrap());
    let connection = listening(&server.url(), "first", on_push).await;
    server.kill();
    while connection.link().is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(connection.subscribe(b"second").await.unwrap_err().is_transient());
    server.start_again();
    let link = link_after(&connection, 1).await;
    assert_eq!(link.call(&command(["PUBLISH", "second", "x"])).await.unwrap(), Reply::Int(1));
    assert_eq!(next(&mut messages).await, message("second", "x"));
}

#[tokio::test]
async fn a_subscription_that_is_refused_is_told_and_shifts_nothing() {
    let server = RedisOptions::new().set("user", "me on >pw ~* +@all resetchannels &mine").start();
    let url = format!("redis://me:pw@127.0.0.1:{}", server.port());
    let connection = listening(&url, "mine", Arc::new(drop)).await;
    let link = connection.link().unwrap();
    let before = link.call(&command(["ECHO", "before"]));
    let refused = link.subscribe(b"yours");
    let after = link.call(&command(["ECHO", "after"]));
    assert_eq!(before.await.unwrap(), text("before"));
    assert_eq!(refused.await.unwrap().error_code(), Some("NOPERM"));
    assert_eq!(after.await.unwrap(), text("after"));
}

#[tokio::test]
async fn a_handler_may_ask_something_itself() {
    let server = RedisOptions::new().start();
    let connection = Arc::new(std::sync::OnceLock::<super::Connection>::new());
    let (own, (sender, mut replies)) = (connection.clone(), tokio::sync::mpsc::unbounded_channel());
    let on_push = Arc::new(move |_| {
        let call = own.get().unwrap().link().unwrap().call(&command(["ECHO", "from the handler"]));
        let sender = sender.clone();
        tokio::spawn(async move { sender.send(call.await.unwrap()).unwrap() });
    });
    connection.set(listening(&server.url(), "me", on_push).await).unwrap();
    server.cli(&["PUBLISH", "me", "x"]);
    assert_eq!(next(&mut replies).await, text("from the handler"));
}
