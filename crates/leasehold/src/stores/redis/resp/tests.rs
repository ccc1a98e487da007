use proptest::prelude::*;

use super::{Arg, Eval, Frame, Inbox, Malformed, Reply, Request, Script};

/// Feeds `bytes` in pieces of the given lengths, over and over.
fn read(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Frame>, Malformed> {
    let mut inbox = Inbox::default();
    let mut frames = Vec::new();
    let mut rest = bytes;
    let mut pieces = pieces.iter().copied().cycle();
    while !rest.is_empty() {
        let room = inbox.room();
        let length = pieces.next().unwrap_or(usize::MAX).clamp(1, rest.len().min(room.len()));
        room[..length].copy_from_slice(&rest[..length]);
        inbox.filled(length);
        rest = &rest[length..];
        while let Some(frame) = inbox.next()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

fn reply(bytes: &[u8]) -> Result<Reply, Malformed> {
    match read(bytes, &[])?.pop() {
        Some(Frame::Reply(reply)) => Ok(reply),
        other => panic!("{other:?}"),
    }
}

/// As a server would write it.
fn write(reply: &Reply, out: &mut Vec<u8>) {
    match reply {
        Reply::Nil => out.extend(b"_\r\n"),
        Reply::Ok => out.extend(b"+OK\r\n"),
        Reply::Int(int) => out.extend(format!(":{int}\r\n").bytes()),
        Reply::Bool(bool) => out.extend(if *bool { b"#t\r\n" } else { b"#f\r\n" }),
        Reply::Double(double) => out.extend(format!(",{double}\r\n").bytes()),
        Reply::Text(text) => {
            out.extend(format!("${}\r\n", text.len()).bytes());
            out.extend(text);
            out.extend(b"\r\n");
        }
        Reply::Error(text) => out.extend(format!("!{}\r\n{text}\r\n", text.len()).bytes()),
        Reply::Array(items) => {
            out.extend(format!("*{}\r\n", items.len()).bytes());
            for item in items {
                write(item, out);
            }
        }
        Reply::Map(pairs) => {
            out.extend(format!("%{}\r\n", pairs.len()).bytes());
            for (key, value) in pairs {
                write(key, out);
                write(value, out);
            }
        }
    }
}

fn replies() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        Just(Reply::Nil),
        Just(Reply::Ok),
        any::<i64>().prop_map(Reply::Int),
        any::<bool>().prop_map(Reply::Bool),
        (-1e9..1e9).prop_map(Reply::Double),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Reply::Text(bytes.into())),
        "[A-Z]{2,8} [a-z\r\n]{0,20}".prop_map(|text| Reply::Error(text.into())),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Reply::Array),
            proptest::collection::vec((inner.clone(), inner), 0..4).prop_map(Reply::Map),
        ]
    })
}

fn frames() -> impl Strategy<Value = Frame> {
    prop_oneof![replies().prop_map(Frame::Reply), proptest::collection::vec(replies(), 1..4).prop_map(Frame::Push),]
}

proptest! {
    #[test]
    fn replies_are_the_same_however_their_bytes_are_split(
        frames in proptest::collection::vec(frames(), 1..8),
        pieces in proptest::collection::vec(1usize..30, 1..10),
    ) {
        let mut bytes = Vec::new();
        for frame in &frames {
            match frame {
                Frame::Reply(reply) => write(reply, &mut bytes),
                Frame::Push(items) => {
                    bytes.extend(format!(">{}\r\n", items.len()).bytes());
                    for item in items {
                        write(item, &mut bytes);
                    }
                }
            }
        }
        prop_assert_eq!(read(&bytes, &[]), Ok(frames.clone()));
        prop_assert_eq!(read(&bytes, &pieces), Ok(frames.clone()));
        prop_assert_eq!(read(&bytes, &[1]), Ok(frames));
    }

    #[test]
    fn no_bytes_make_it_panic_and_no_split_changes_the_verdict(
        bytes in proptest::collection::vec(
            prop_oneof![
                4 => proptest::sample::select(b"+-:_#,($=!*~>%|0123456789\r\n".to_vec()),
                1 => any::<u8>(),
                4 => Just(b'\r'), 4 => Just(b'\n'), 2 => Just(b'1'),
            ],
            0..200,
        ),
        pieces in proptest::collection::vec(1usize..20, 1..10),
    ) {
        prop_assert_eq!(read(&bytes, &[]), read(&bytes, &pieces));
    }

    #[test]
    fn a_damaged_reply_never_panics(
        frame in replies(), at in any::<proptest::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut bytes = Vec::new();
        write(&frame, &mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.remove(at);
        }
        let whole = read(&bytes, &[]);
        prop_assert_eq!(whole, read(&bytes, &[1]));
    }

    #[test]
    fn a_request_is_an_array_of_its_parts(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..15), int in any::<i64>(),
    ) {
        let mut args: Vec<Arg<'_>> = parts.iter().map(|part| Arg::from(part.as_slice())).collect();
        args.push(int.into());
        let mut bytes = Vec::new();
        args.as_slice().encode(&mut bytes);
        let mut expected: Vec<Reply> = parts.into_iter().map(|part| Reply::Text(part.into())).collect();
        expected.push(Reply::Text(int.to_string().into_bytes().into()));
        prop_assert_eq!(reply(&bytes), Ok(Reply::Array(expected)));
    }
}

#[test]
fn every_type_is_read() {
    let text = |text: &str| Reply::Text(text.as_bytes().into());
    for (bytes, expected) in [
        ("$-1\r\n", Reply::Nil),
        ("*-1\r\n", Reply::Nil),
        ("_\r\n", Reply::Nil),
        ("+QUEUED\r\n", text("QUEUED")),
        ("=8\r\ntxt:some\r\n", text("some")),
        ("(123456789012345678901234567890\r\n", text("123456789012345678901234567890")),
        (",inf\r\n", Reply::Double(f64::INFINITY)),
        ("-ERR no\r\n", Reply::Error("ERR no".into())),
        ("~2\r\n:1\r\n:2\r\n", Reply::Array(vec![Reply::Int(1), Reply::Int(2)])),
        ("|1\r\n+ttl\r\n:3\r\n*1\r\n:7\r\n", Reply::Array(vec![Reply::Int(7)])),
        ("*0\r\n", Reply::Array(vec![])),
    ] {
        assert_eq!(reply(bytes.as_bytes()), Ok(expected), "{bytes:?}");
    }
}

#[test]
fn what_is_not_the_protocol_is_refused() {
    for (bytes, error) in [
        ("HTTP/1.1 400 Bad Request\r\n", Malformed::Type(b'H')),
        ("$3\r\nabcd\r\n", Malformed::End),
        ("+OK\rX", Malformed::End),
        ("$x\r\n", Malformed::Number),
        ("$-2\r\n", Malformed::Number),
        ("*+1\r\n:1\r\n", Malformed::Number),
        (":1x\r\n", Malformed::Number),
        ("#x\r\n", Malformed::Number),
        ("*1\r\n>1\r\n+x\r\n", Malformed::Push),
        (">0\r\n", Malformed::Push),
        ("$?\r\n", Malformed::Number),
        ("$99999999999\r\n", Malformed::Large),
        ("%18446744073709551615\r\n", Malformed::Large),
        (&"*1\r\n".repeat(17), Malformed::Deep),
        (&"+".repeat(70_000), Malformed::Large),
    ] {
        assert_eq!(read(bytes.as_bytes(), &[]), Err(error), "{bytes:?}");
    }
}

#[test]
fn a_reply_of_many_values_is_not_believed_before_it_is_there() {
    // An announcement of a billion values must not reserve their memory.
    assert_eq!(read(b"*1000000000\r\n:1\r\n", &[]), Ok(vec![]));
}

#[test]
fn a_large_reply_in_small_pieces_is_read_once() {
    let mut bytes = b"*200000\r\n".to_vec();
    bytes.extend(b"$5\r\nabcde\r\n".repeat(200_000));
    let Frame::Reply(Reply::Array(items)) = &read(&bytes, &[1000]).unwrap()[0] else { panic!() };
    assert_eq!(items.len(), 200_000);
}

#[test]
fn the_hash_of_a_script_is_what_servers_compute() {
    let script = Script::new("return 1");
    let mut bytes = Vec::new();
    Eval { script: &script, keys: &["k".into()], args: &[Arg::Int(-5)], whole: false }.encode(&mut bytes);
    let expected =
        "*5\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n$1\r\n1\r\n$1\r\nk\r\n$2\r\n-5\r\n";
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}
