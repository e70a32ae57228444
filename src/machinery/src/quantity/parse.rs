//! Parsing of quantities.

use std::ops::Neg;

use super::{Format, NANO, Quantity, QuantityError};

/// The digits that fit into 64 bits, of decimal quantities and of binary ones.
const MOST_DIGITS: usize = 18;
const MOST_DIGITS_OF_BINARY: usize = 15;

const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// Suffixes and the powers of two that they stand for, in rising order.
pub(super) const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The suffix of a power of ten that has one, else none.
pub(super) fn decimal_suffix(exponent: i32) -> &'static str {
    DECIMAL_SUFFIXES
        .iter()
        .find(|(_, power)| *power == exponent)
        .map_or("", |(suffix, _)| suffix)
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let (whole, rest) = split_digits(unsigned);
    let (decimals, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    check_suffix_form(suffix)?;
    let suffix = Suffix::parse(suffix)?;
    let (magnitude, zeroes) = number(whole, decimals)?;
    let scale = i32::try_from(decimals.len()).map_err(|_| QuantityError::Numeric)?;
    let shift = zeroes.saturating_sub(scale);
    let quantity = match suffix {
        Suffix::Decimal(exponent) => Quantity::new(magnitude, exponent.saturating_add(shift), Format::DecimalSi),
        Suffix::Exponent(exponent) => Quantity::new(magnitude, exponent.saturating_add(shift), Format::DecimalExponent),
        Suffix::Binary(power) => binary(magnitude, shift, power),
    };
    Ok(if negative { quantity.neg() } else { quantity })
}

/// Returns true for a quantity that keeps the text that it was written as, as Kubernetes takes that for canonical without a look at
/// signs and leading zeroes (`ParseQuantity`).
pub(super) fn is_kept_as_written(text: &str) -> bool {
    let (whole, rest) = split_digits(text.strip_prefix(['-', '+']).unwrap_or(text));
    let (decimals, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let digits = whole.len().saturating_add(decimals.len());
    match Suffix::parse(suffix) {
        Ok(Suffix::Decimal(exponent) | Suffix::Exponent(exponent)) => {
            let scale = i32::try_from(decimals.len())
                .ok()
                .and_then(|decimals| exponent.checked_sub(decimals));
            let ends_in_zeroes = format!("{whole}{decimals}").ends_with("000");
            digits <= MOST_DIGITS
                && !whole.starts_with('0')
                && !ends_in_zeroes
                && scale.is_some_and(|scale| scale >= NANO && scale % 3 == 0)
        }
        Ok(Suffix::Binary(power)) => {
            let value = whole.parse::<i64>().ok();
            let fits = value.and_then(|value| value.checked_mul(1_i64 << power)).is_some();
            // An estimate of the decimal digits that the power takes.
            let digits_of_power = usize::try_from(power.saturating_mul(3) / 10).unwrap_or(usize::MAX);
            decimals.is_empty()
                && digits.saturating_add(digits_of_power) < MOST_DIGITS_OF_BINARY
                && fits
                && value.is_some_and(|value| value % 8 != 0)
        }
        Err(_) => false,
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The digits as a number and how many zeroes follow it: these take none of the digits that can be held.
fn number(whole: &str, decimals: &str) -> Result<(i128, i32), QuantityError> {
    let mut number = 0_i128;
    let mut zeroes = 0_u32;
    for digit in whole.chars().chain(decimals.chars()).filter_map(|c| c.to_digit(10)) {
        if digit == 0 {
            zeroes = zeroes.saturating_add(u32::from(number != 0));
            continue;
        }
        number = 10_i128
            .checked_pow(zeroes.saturating_add(1))
            .and_then(|shift| number.checked_mul(shift))
            .and_then(|shifted| shifted.checked_add(i128::from(digit)))
            .ok_or(QuantityError::Numeric)?;
        zeroes = 0;
    }
    let zeroes = i32::try_from(zeroes).map_err(|_| QuantityError::Numeric)?;
    Ok((number, zeroes))
}

/// Letters of suffixes, a sign, digits: what the regular expression in the message wants.
fn check_suffix_form(suffix: &str) -> Result<(), QuantityError> {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    if rest.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(())
    } else {
        Err(QuantityError::Format)
    }
}

enum Suffix {
    Decimal(i32),
    Binary(u32),
    Exponent(i32),
}

impl Suffix {
    fn parse(text: &str) -> Result<Self, QuantityError> {
        let decimal = DECIMAL_SUFFIXES.iter().find(|(suffix, _)| *suffix == text);
        let binary = BINARY_SUFFIXES.iter().find(|(suffix, _)| *suffix == text);
        match (decimal, binary) {
            (Some((_, power)), _) => Ok(Self::Decimal(*power)),
            (_, Some((_, power))) => Ok(Self::Binary(*power)),
            _ => text
                .strip_prefix(['e', 'E'])
                .and_then(|exponent| exponent.parse().ok())
                .map(Self::Exponent)
                .ok_or(QuantityError::Suffix),
        }
    }
}

/// Binary quantities are capped at the largest 64-bit number, and become decimal ones if they are less than one.
fn binary(magnitude: i128, exponent: i32, power: u32) -> Quantity {
    let largest = Quantity::from_integer(i64::MAX, Format::BinarySi);
    let factor = 1_i128 << power;
    let Some(product) = magnitude.checked_mul(factor) else {
        return largest;
    };
    let quantity = Quantity::new(product, exponent, Format::BinarySi);
    let one = Quantity::from_integer(1, Format::DecimalSi);
    if quantity > largest {
        largest
    } else if quantity.signum() > 0 && quantity < one {
        Quantity {
            format: Format::DecimalSi,
            ..quantity
        }
    } else {
        quantity
    }
}
