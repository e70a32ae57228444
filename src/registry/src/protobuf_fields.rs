//! Reads protobuf messages in tests, field by field.

/// The length-delimited fields of a protobuf message.
///
/// # Panics
/// If the message is cut short.
pub fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let number = varint(&mut bytes);
        if key & 7 == 0 {
            continue;
        }
        let length = usize::try_from(number).expect("lengths are small");
        let (value, rest) = bytes.split_at(length);
        found.push((key >> 3, value));
        bytes = rest;
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("the message is whole");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// The value of a field that is there once.
///
/// # Panics
/// If it is absent or there twice.
pub fn only<'b>(fields: &[(u64, &'b [u8])], tag: u64) -> &'b [u8] {
    let mut found = fields.iter().filter(|(key, _)| *key == tag).map(|(_, value)| *value);
    let first = found.next().unwrap_or_else(|| panic!("no field {tag}"));
    assert!(found.next().is_none(), "field {tag} is there twice");
    first
}
