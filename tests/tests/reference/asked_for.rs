//! Addresses and node ports that scenarios ask for.

use std::fs;

use regex::Regex;

use super::recordings;

/// The lower parts of the recorded ranges, whose numbers are handed out to those who ask for them, and to others only when
/// all the rest is taken (KEP-3070, KEP-3668): the last offset of 10.96.0.0/16 and fd00:10:96::/112, the last node port.
const LAST_OFFSET: u32 = 256;
const LAST_PORT: u32 = 30_085;

/// The number that decides whether another service may have got what a scenario asks for, and the most that it may be.
fn asked_for(found: &regex::Captures<'_>) -> (u32, u32) {
    let number = |name: &str, radix| {
        let text = found.name(name)?.as_str();
        Some(u32::from_str_radix(text, radix).expect("a number"))
    };
    match (number("third", 10), number("fourth", 10), number("v6", 16)) {
        (Some(third), Some(fourth), _) => (third * 256 + fourth, LAST_OFFSET),
        (.., Some(offset)) => (offset, LAST_OFFSET),
        _ => (number("port", 10).expect("one of them"), LAST_PORT),
    }
}

#[test]
fn what_scenarios_ask_for_is_handed_out_to_nobody_else() {
    let numbers = r#"10\.96\.(?<third>\d+)\.(?<fourth>\d+)\b|fd00:10:96::(?<v6>[0-9a-f]+)|odePort\\?": ?(?<port>\d+)"#;
    let numbers = Regex::new(numbers).expect("an expression");
    let (mut found, mut handed_out) = (0, Vec::new());
    for file in recordings() {
        let text = fs::read_to_string(&file).expect("a recording");
        for captures in numbers.captures_iter(&text) {
            found += 1;
            let (number, most) = asked_for(&captures);
            if number > most {
                handed_out.push(format!("{}: {}", file.display(), &captures[0]));
            }
        }
    }
    assert!(found > 300, "only {found} were found");
    assert!(handed_out.is_empty(), "{}", handed_out.join("\n"));
}
