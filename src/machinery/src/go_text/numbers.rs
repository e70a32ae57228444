//! Numbers as Go's `strconv` reads them and as `encoding/json` prints them.

use std::str::FromStr;

use super::quote;

/// A finite double as `encoding/json` prints it: without a fraction if it has none, with an exponent only if it is
/// very large or small.
pub(crate) fn go_float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        // Rust prints 1e21 where Go prints 1e+21.
        let text = format!("{value:e}");
        return match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => format!("{mantissa}e+{exponent}"),
            _ => text,
        };
    }
    format!("{value}")
}

/// A finite double as `%v` prints it: with an exponent of two digits at least below 1e-4 and from 1e6 upwards.
pub(crate) fn general_float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e6).contains(&magnitude) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// `strconv.ParseInt` in base 10 and 64 bits.
///
/// # Errors
/// In Go's words, if the text is no number or does not fit.
pub fn parse_int(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    parse("ParseInt", text, digits)
}

/// `strconv.Atoi`: as [`parse_int`] but for the name in its errors.
///
/// # Errors
/// In Go's words, if the text is no number or does not fit.
pub fn atoi(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    parse("Atoi", text, digits)
}

/// `strconv.ParseUint` in base 10 and 64 bits, which takes no sign.
///
/// # Errors
/// In Go's words, if the text is no number or does not fit.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    parse("ParseUint", text, text)
}

/// The error of a function of `strconv`.
pub fn parse_error(function: &str, text: &str, why: &str) -> String {
    format!("strconv.{function}: parsing {}: {why}", quote(text))
}

fn parse<N: FromStr>(function: &str, text: &str, digits: &str) -> Result<N, String> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(parse_error(function, text, "invalid syntax"));
    }
    text.parse()
        .map_err(|_| parse_error(function, text, "value out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_printed_as_fmt_prints_them() {
        for (value, printed) in [
            (150.0, "150"),
            (0.5, "0.5"),
            (-2.25, "-2.25"),
            (0.0, "0"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (123_456.75, "123456.75"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (2_500_000.5, "2.5000005e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (1e20, "1e+20"),
            (-1e22, "-1e+22"),
            (-1e-300, "-1e-300"),
        ] {
            assert_eq!(general_float(value), printed);
        }
    }

    #[test]
    fn numbers_are_read_as_strconv_reads_them() {
        assert_eq!(parse_int("-12"), Ok(-12));
        assert_eq!(atoi("+7"), Ok(7));
        assert_eq!(parse_uint("18446744073709551615"), Ok(u64::MAX));
        for (error, expected) in [
            (parse_int("").err(), r#"strconv.ParseInt: parsing "": invalid syntax"#),
            (
                parse_int("1_0").err(),
                r#"strconv.ParseInt: parsing "1_0": invalid syntax"#,
            ),
            (
                parse_int("9223372036854775808").err(),
                r#"strconv.ParseInt: parsing "9223372036854775808": value out of range"#,
            ),
            (atoi("x\n").err(), r#"strconv.Atoi: parsing "x\n": invalid syntax"#),
            (
                parse_uint("+1").err(),
                r#"strconv.ParseUint: parsing "+1": invalid syntax"#,
            ),
        ] {
            assert_eq!(error.as_deref(), Some(expected));
        }
    }
}
