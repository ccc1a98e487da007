use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use leasehold_testkit::redis_server::RedisOptions;

use super::{ask, command, open, text};
use crate::stores::redis::{
    connection::accepted,
    resp::{Arg, Eval, Reply, Script},
};

async fn echoes(url: &str) {
    let connection = Arc::new(open(url).await);
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let connection = connection.clone();
            tokio::spawn(async move {
                for round in 0..200 {
                    let word = format!("{task}:{round}");
                    assert_eq!(ask(&connection, ["ECHO", &word]).await.unwrap(), text(&word));
                    if round % 17 == task % 17 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn each_of_64_tasks_gets_its_own_replies() {
    echoes(&RedisOptions::new().start().url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_of_64_tasks_gets_its_own_replies_on_many_threads() {
    echoes(&RedisOptions::new().start().url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_that_are_dropped_do_not_shift_the_replies_of_others() {
    let server = RedisOptions::new().start();
    let connection = Arc::new(open(&server.url()).await);
    let tasks: Vec<_> = (0..32)
        .map(|task: usize| {
            let connection = connection.clone();
            tokio::spawn(async move {
                for round in 0..300 {
                    let word = format!("{task}:{round}");
                    let link = connection.link().unwrap();
                    let mut call = link.call(&command(["ECHO", &word]));
                    match (task + round) % 4 {
                        // Never polled.
                        0 => drop(call),
                        // Polled once, then dropped, with its reply still on the way or there already.
                        1 => {
                            let polled = std::pin::Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop()));
                            if let Poll::Ready(reply) = polled {
                                assert_eq!(reply.unwrap(), text(&word));
                            } else if round % 3 == 0 {
                                tokio::task::yield_now().await;
                            }
                        }
                        _ => assert_eq!(call.await.unwrap(), text(&word)),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let link = connection.link().unwrap();
    assert_eq!(link.call(&command(["ECHO", "last"])).await.unwrap(), text("last"));
    assert_eq!(link.state().slots_in_use(), 0, "slots of dropped calls are given back");
}

#[tokio::test]
async fn all_bytes_pass_and_large_values_too() {
    let server = RedisOptions::new().start();
    let connection = open(&server.url()).await;
    let value: Vec<u8> = (0..=255u8).cycle().take(12_000_001).collect();
    let link = connection.link().unwrap();
    let set = link.call(&["SET".into(), "a\r\n\0b".into(), Arg::Bytes(&value)]);
    let get = link.call(&command(["GET", "a\r\n\0b"]));
    let echo = link.call(&command(["ECHO", "after"]));
    // The last is awaited first: the server's replies do not wait for us to ask for them.
    assert_eq!(echo.await.unwrap(), text("after"));
    assert_eq!(set.await.unwrap(), Reply::Ok);
    assert_eq!(get.await.unwrap(), Reply::Text(value.into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_takes_no_more_is_waited_for() {
    let server = RedisOptions::new().start();
    let connection = Arc::new(open(&server.url()).await);
    let tasks: Vec<_> = (0..16u8)
        .map(|task| {
            let connection = connection.clone();
            tokio::spawn(async move {
                let value = vec![task; 700_000];
                let key = format!("k{task}");
                for _ in 0..3 {
                    let link = connection.link().unwrap();
                    let set = ["SET".into(), Arg::from(key.as_str()), Arg::Bytes(&value)];
                    assert_eq!(link.call(&set).await.unwrap(), Reply::Ok);
                    let stored = link.call(&command(["GET", &key])).await.unwrap();
                    assert!(stored == Reply::Text(value.clone().into()), "{key}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_reply_of_many_values_is_whole() {
    let server = RedisOptions::new().start();
    let connection = open(&server.url()).await;
    let link = connection.link().unwrap();
    let script = Script::new("local t={} for i=1,50000 do t[i]=tostring(i) end return t");
    let reply = link.eval(&script, &[], &[]).await.unwrap();
    let items = reply.items().unwrap();
    assert_eq!((items.len(), &items[49_999]), (50_000, &text("50000")));
}

#[tokio::test]
async fn a_script_runs_whether_the_server_knows_it_or_not() {
    let server = RedisOptions::new().start();
    let connection = open(&server.url()).await;
    let link = connection.link().unwrap();
    let script = Script::new("return {KEYS[1], ARGV[1], ARGV[2]}");
    let expected = Reply::Array(vec![text("k"), text("-7"), text("x")]);
    for _ in 0..2 {
        let reply = link.eval(&script, &["k".into()], &[Arg::Int(-7), "x".into()]).await;
        assert_eq!(reply.unwrap(), expected);
    }
    server.cli(&["SCRIPT", "FLUSH"]);
    let names: Vec<String> = (0..600).map(|index| index.to_string()).collect();
    let args: Vec<[Arg<'_>; 2]> = names.iter().map(|name| [name.as_str().into(), Arg::Int(1)]).collect();
    let evals: Vec<Eval<'_>> =
        args.iter().map(|args| Eval { script: &script, keys: &args[..1], args, whole: false }).collect();
    for (index, reply) in link.eval_all(&evals).await.into_iter().enumerate() {
        let index = text(&index.to_string());
        assert_eq!(reply.unwrap(), Reply::Array(vec![index.clone(), index, text("1")]));
    }
    assert_eq!(link.epoch(), 1);
}

#[tokio::test]
async fn what_a_script_refuses_is_an_error_of_its_kind() {
    let server = RedisOptions::new().start();
    let connection = open(&server.url()).await;
    let link = connection.link().unwrap();
    let busy = link.eval(&Script::new("return redis.error_reply('BUSY no')"), &[], &[]).await.unwrap_err();
    assert!(busy.is_transient(), "{busy}");
    ask(&connection, ["RPUSH", "list", "x"]).await.unwrap();
    let wrong_type = accepted(ask(&connection, ["GET", "list"]).await.unwrap()).unwrap_err();
    assert_eq!(wrong_type.kind(), crate::ErrorKind::Corrupt);
    let unknown = accepted(ask(&connection, ["NOSUCH"]).await.unwrap()).unwrap_err();
    assert!(!unknown.is_transient() && unknown.to_string().contains("NOSUCH"), "{unknown}");
}
