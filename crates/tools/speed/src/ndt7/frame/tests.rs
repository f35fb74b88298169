//! Tests with the frames of the RFC, invalid frames, and arbitrary bytes.

use proptest::prelude::*;

use super::*;

fn items(reader: &mut FrameReader, mut bytes: &[u8]) -> Result<Vec<FrameItem>, FrameError> {
    let mut items = Vec::new();
    while let Some(item) = reader.read(&mut bytes)? {
        items.push(item);
    }
    assert!(bytes.is_empty(), "all is read before more is asked for");
    Ok(items)
}

fn of_client(bytes: &[u8]) -> Result<Vec<FrameItem>, FrameError> {
    items(&mut FrameReader::of_client(), bytes)
}

fn of_server(bytes: &[u8]) -> Result<Vec<FrameItem>, FrameError> {
    items(&mut FrameReader::of_server(), bytes)
}

/// The examples of RFC 6455 section 5.7.
#[test]
fn the_examples_of_the_rfc() {
    let hello = || FrameItem::Text("Hello".into());
    assert_eq!(of_client(b"\x81\x05Hello"), Ok(vec![hello()]));
    assert_eq!(of_server(b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), Ok(vec![hello()]));
    assert_eq!(of_client(b"\x01\x03Hel\x80\x02lo"), Ok(vec![hello()]));
    assert_eq!(of_client(b"\x89\x05Hello"), Ok(vec![FrameItem::Ping(b"Hello".to_vec())]));
    assert_eq!(
        of_server(b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"),
        Ok(vec![FrameItem::Pong(b"Hello".to_vec())])
    );
    let long = [&b"\x82\x7e\x01\x00"[..], &[7; 256]].concat();
    assert_eq!(of_client(&long), Ok(vec![FrameItem::Binary(256)]));
    let longer = [&b"\x82\x7f\0\0\0\0\0\x01\0\0"[..], &[7; 65536]].concat();
    assert_eq!(of_client(&longer), Ok(vec![FrameItem::Binary(65536)]));
    assert_eq!(
        message(Opcode::Text, b"Hello", Some([0x37, 0xfa, 0x21, 0x3d])),
        b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"
    );
    assert_eq!(head(Opcode::Binary, 65536, None), b"\x82\x7f\0\0\0\0\0\x01\0\0");
}

#[test]
fn control_frames_may_come_within_a_message() {
    let found = of_client(b"\x01\x03Hel\x89\x01x\x80\x02lo\x88\x02\x03\xe8");
    let expected = [
        FrameItem::Ping(b"x".to_vec()),
        FrameItem::Text("Hello".into()),
        FrameItem::Close(Some(CloseCode::NORMAL)),
    ];
    assert_eq!(found, Ok(expected.to_vec()));
    assert_eq!(of_client(b"\x88\x00"), Ok(vec![FrameItem::Close(None)]));
    assert_eq!(of_client(b"\x82\x00\x81\x00"), Ok(vec![FrameItem::Text(String::new())]));
}

#[test]
fn broken_rules_are_told() {
    for (bytes, error) in [
        (&b"\xc1\x00"[..], FrameError::Reserved),
        (b"\x83\x00", FrameError::Reserved),
        (b"\x81\x80", FrameError::Mask),
        (b"\x81\x7e\x00\x7d", FrameError::Length),
        (b"\x82\x7f\0\0\0\0\0\0\xff\xff", FrameError::Length),
        (b"\x82\x7f\x80\0\0\0\0\0\0\0", FrameError::Length),
        (b"\x09\x00", FrameError::Control),
        (b"\x89\x7e\x00\x7e", FrameError::Control),
        (b"\x80\x00", FrameError::Fragment),
        (b"\x01\x00\x01\x00", FrameError::Fragment),
        (b"\x82\x7f\0\0\0\0\x01\0\0\x01", FrameError::TooLong),
        (b"\x81\x7f\0\0\0\0\0\x01\0\x01", FrameError::TooLong),
        (b"\x02\x7f\0\0\0\0\x7f\xff\xff\xff", FrameError::TooLong),
        (b"\x81\x01\xff", FrameError::NotUtf8),
        (b"\x88\x01\x03", FrameError::CloseCode),
        (b"\x88\x02\x03\xed", FrameError::CloseCode),
        (b"\x88\x03\x03\xe8\xff", FrameError::NotUtf8),
    ] {
        assert_eq!(of_client(bytes), Err(error), "{}", bytes.escape_ascii());
    }
    assert_eq!(of_server(b"\x81\x05Hello"), Err(FrameError::Mask));
    assert_eq!(FrameError::TooLong.code(), CloseCode::TOO_LONG);
}

#[test]
fn a_message_in_parts_has_a_limit_too() {
    let part = [&b"\x01\x7e\xff\xff"[..], &[b'a'; 0xffff]].concat();
    let mut reader = FrameReader::of_client();
    assert_eq!(items(&mut reader, &part), Ok(vec![]));
    assert_eq!(items(&mut reader, b"\x00\x01a"), Ok(vec![]));
    assert_eq!(items(&mut reader, b"\x00\x01a"), Err(FrameError::TooLong));
}

/// Joins consecutive pieces of binary messages.
fn joined(items: Vec<FrameItem>) -> Vec<FrameItem> {
    let mut joined: Vec<FrameItem> = Vec::new();
    for item in items {
        match (joined.last_mut(), item) {
            (Some(FrameItem::Binary(before)), FrameItem::Binary(bytes)) => *before += bytes,
            (_, item) => joined.push(item),
        }
    }
    joined
}

/// Generates a stream of frames that are mostly valid.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let frame = (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..200), any::<[u8; 4]>(), 0..8)
        .prop_map(|(first, payload, key, kind)| {
            let opcode = [
                Opcode::Text,
                Opcode::Binary,
                Opcode::Ping,
                Opcode::Pong,
                Opcode::Close,
                Opcode::Continuation,
            ][usize::from(first) % 6];
            let mut bytes = message(opcode, &payload, Some(key));
            match kind {
                0 => bytes[0] = first,
                1 => bytes[0] &= 0x7f,
                _ => {}
            }
            bytes
        });
    proptest::collection::vec(frame, 0..6).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn bytes_one_by_one_are_the_bytes(bytes in stream(), piece in 1_usize..10) {
        let mut reader = FrameReader::of_server();
        let whole = of_server(&bytes).map(joined);
        let pieces: Result<Vec<_>, _> = bytes.chunks(piece).map(|bytes| items(&mut reader, bytes)).collect();
        prop_assert_eq!(whole, pieces.map(|items| joined(items.concat())));
    }

    #[test]
    fn a_frame_parser_survives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for mut reader in [FrameReader::of_server(), FrameReader::of_client()] {
            let _ = items(&mut reader, &bytes);
            prop_assert!(reader.head.len() < LONGEST_HEAD && reader.control.len() <= 125);
            prop_assert!(reader.text.len() <= LONGEST_TEXT);
        }
    }

    #[test]
    fn a_message_is_read_as_it_was_written(text in ".{0,300}", key in any::<[u8; 4]>()) {
        prop_assert_eq!(of_server(&message(Opcode::Text, text.as_bytes(), Some(key))), Ok(vec![FrameItem::Text(text.clone())]));
        prop_assert_eq!(of_client(&message(Opcode::Text, text.as_bytes(), None)), Ok(vec![FrameItem::Text(text)]));
    }
}
