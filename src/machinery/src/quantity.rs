//! Resource quantities: exact decimal numbers with the suffixes of `k8s.io/apimachinery/pkg/api/resource`.
//!
//! A quantity is `mantissa × 10^exponent`, never finer than a billionth. Where Kubernetes falls back to numbers of
//! any length this one has 38 digits: sums saturate there, and longer texts are refused.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod parse;

use std::{
    borrow::Cow,
    cmp::Ordering,
    fmt,
    ops::{Add, Neg, Sub},
};

/// The finest that a quantity can be, as a power of ten.
const NANO: i32 = -9;

/// The notation of a quantity, which is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// The reason that a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It is not of the form of one.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// It ends in something that is no suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// Its number cannot be held.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
}

/// An amount of a resource. Quantities compare by value, whatever their format.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// Without trailing zeroes.
    mantissa: i128,
    /// Zero if the mantissa is.
    exponent: i32,
    format: Format,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self {
        mantissa: 0,
        exponent: 0,
        format: Format::DecimalSi,
    };

    /// Parses a quantity.
    ///
    /// # Errors
    /// If the text is none.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// The text of an object's field that was given this one: as it was written where Kubernetes leaves it, else the canonical
    /// form.
    ///
    /// # Errors
    /// If the text is no quantity.
    pub fn kept_text(text: &str) -> Result<Cow<'_, str>, QuantityError> {
        let quantity = Self::parse(text)?;
        Ok(match parse::is_kept_as_written(text) {
            true => Cow::Borrowed(text),
            false => Cow::Owned(quantity.to_string()),
        })
    }

    /// A whole number.
    pub fn from_integer(value: i64, format: Format) -> Self {
        Self::new(i128::from(value), 0, format)
    }

    /// A number of thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self::new(i128::from(value), -3, format)
    }

    /// `mantissa × 10^exponent`, rounded away from zero to whole billionths.
    fn new(mantissa: i128, exponent: i32, format: Format) -> Self {
        let mut quantity = Self {
            // A sum at the lower limit would print as what is too long to be read again.
            mantissa: mantissa.max(-i128::MAX),
            exponent,
            format,
        };
        quantity.reduce();
        quantity.round_up(NANO)
    }

    fn reduce(&mut self) {
        if self.mantissa == 0 {
            self.exponent = 0;
            return;
        }
        while self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.exponent = self.exponent.saturating_add(1);
        }
    }

    /// Its notation.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Returns true if it is nothing.
    pub const fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// -1, 0 or 1.
    pub const fn signum(&self) -> i32 {
        match self.mantissa {
            0 => 0,
            1.. => 1,
            _ => -1,
        }
    }

    /// The quantity rounded away from zero to a multiple of `10^exponent`.
    #[must_use]
    pub fn round_up(self, exponent: i32) -> Self {
        let Some(dropped) = exponent.checked_sub(self.exponent).filter(|dropped| *dropped > 0) else {
            return self;
        };
        let sign = i128::from(self.signum());
        let divided = u32::try_from(dropped)
            .ok()
            .and_then(|digits| 10_i128.checked_pow(digits))
            .and_then(|divisor| Some((self.mantissa.checked_div(divisor)?, self.mantissa.checked_rem(divisor)?)));
        let mantissa = match divided {
            Some((quotient, 0)) => quotient,
            Some((quotient, _)) => quotient.saturating_add(sign),
            None => sign,
        };
        let mut rounded = Self {
            mantissa,
            exponent,
            format: self.format,
        };
        rounded.reduce();
        rounded
    }

    /// The quantity rounded away from zero to whole thousandths, as the API server keeps resource lists.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        self.round_up(-3)
    }

    /// In units of `10^exponent`, rounded away from zero; `None` if that does not fit.
    fn scaled(self, exponent: i32) -> Option<i64> {
        let rounded = self.round_up(exponent);
        if rounded.mantissa == 0 {
            return Some(0);
        }
        let zeroes = u32::try_from(rounded.exponent.checked_sub(exponent)?).ok()?;
        let units = rounded.mantissa.checked_mul(10_i128.checked_pow(zeroes)?)?;
        i64::try_from(units).ok()
    }

    fn scaled_or_limit(self, exponent: i32) -> i64 {
        let limit = if self.mantissa < 0 { i64::MIN } else { i64::MAX };
        self.scaled(exponent).unwrap_or(limit)
    }

    /// The value if it is a whole number that fits.
    pub fn as_integer(&self) -> Option<i64> {
        if self.exponent < 0 { None } else { self.scaled(0) }
    }

    /// The value rounded away from zero to a whole number, at most what fits.
    pub fn value(&self) -> i64 {
        self.scaled_or_limit(0)
    }

    /// The value in thousandths, rounded away from zero, at most what fits.
    pub fn milli_value(&self) -> i64 {
        self.scaled_or_limit(-3)
    }

    /// The mantissa that goes with a lower exponent.
    fn at(self, exponent: i32) -> i128 {
        let zeroes = u32::try_from(self.exponent.saturating_sub(exponent)).unwrap_or(0);
        10_i128
            .checked_pow(zeroes)
            .and_then(|factor| self.mantissa.checked_mul(factor))
            .unwrap_or(match self.signum() {
                0 => 0,
                1 => i128::MAX,
                _ => i128::MIN,
            })
    }
}

/// The sum, in the format of the left side unless that is zero; at most what can be held.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let exponent = match (self.is_zero(), other.is_zero()) {
            (true, _) => other.exponent,
            (_, true) => self.exponent,
            _ => self.exponent.min(other.exponent),
        };
        let sum = self.at(exponent).saturating_add(other.at(exponent));
        Self::new(sum, exponent, format)
    }
}

/// The difference, in the format of the left side unless that is zero; at most what can be held.
impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.add(other.neg())
    }
}

/// The same amount with the other sign.
impl Neg for Quantity {
    type Output = Self;

    fn neg(mut self) -> Self {
        self.mantissa = self.mantissa.saturating_neg();
        self
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_sign = self.signum().cmp(&other.signum());
        if by_sign.is_ne() || self.is_zero() {
            return by_sign;
        }
        let by_size = magnitude(self).cmp(&magnitude(other)).then_with(|| {
            let exponent = self.exponent.min(other.exponent);
            self.at(exponent).unsigned_abs().cmp(&other.at(exponent).unsigned_abs())
        });
        if self.signum() < 0 { by_size.reverse() } else { by_size }
    }
}

/// Position of the first digit relative to the decimal point.
fn magnitude(quantity: &Quantity) -> i64 {
    let digits = quantity.mantissa.unsigned_abs().checked_ilog10().unwrap_or(0);
    i64::from(digits).saturating_add(i64::from(quantity.exponent))
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        (self.mantissa, self.exponent) == (other.mantissa, other.exponent)
    }
}

impl Eq for Quantity {}

/// The canonical form: no fraction, the largest suffix that needs none.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        match (self.format, self.binary_integer()) {
            (Format::BinarySi, Some(integer)) => fmt_binary(integer, f),
            (format, _) => self.fmt_decimal(format, f),
        }
    }
}

impl Quantity {
    /// The value if it can be shown with a binary suffix: whole, and at least 1024 either way.
    fn binary_integer(&self) -> Option<i128> {
        if self.exponent < 0 {
            return None;
        }
        let factor = 10_i128.checked_pow(u32::try_from(self.exponent).ok()?)?;
        self.mantissa
            .checked_mul(factor)
            .filter(|integer| integer.unsigned_abs() >= 1024)
    }

    fn fmt_decimal(&self, format: Format, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousands = self.exponent.div_euclid(3).saturating_mul(3);
        let shown = match format {
            Format::DecimalExponent => thousands,
            // Beyond exa there is no suffix; the number takes the zeroes.
            _ => thousands.min(18),
        };
        write!(f, "{}", self.mantissa)?;
        for _ in shown..self.exponent {
            f.write_str("0")?;
        }
        match (format, shown) {
            (_, 0) => Ok(()),
            (Format::DecimalExponent, exponent) => write!(f, "e{exponent}"),
            (_, exponent) => f.write_str(parse::decimal_suffix(exponent)),
        }
    }
}

fn fmt_binary(mut integer: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut suffixes = parse::BINARY_SUFFIXES.iter();
    let mut suffix = "";
    while integer % 1024 == 0 {
        let Some((larger, _)) = suffixes.next() else { break };
        integer /= 1024;
        suffix = larger;
    }
    write!(f, "{integer}{suffix}")
}

#[cfg(test)]
mod tests;
