//! Conversion between numbers and digits without `std::fmt`.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Decimal digits of a number, without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    digits: [u8; 20],
    start: u8,
}

impl Decimal {
    /// The digits without leading zeros.
    pub fn new(number: u64) -> Self {
        Self::padded(number, 1)
    }

    /// The digits with leading zeros up to `width` digits, at most 20.
    pub fn padded(mut number: u64, width: u8) -> Self {
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        while number > 0 {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        let start = start.min(digits.len() - usize::from(width.min(20)));
        Self { digits, start: start as u8 }
    }

    /// The digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[usize::from(self.start)..]
    }
}

/// Fills `out` with the lowest hexadecimal digits of `number`, in lower case.
pub fn put_hex(mut number: u64, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = HEX[(number & 15) as usize];
        number >>= 4;
    }
}

/// Reads at most 16 hexadecimal digits in lower case. Any other byte gives `None`.
pub fn hex(digits: &[u8]) -> Option<u64> {
    if digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(value))
    })
}

/// Reads a decimal number below 2^32. Any other byte gives `None`.
pub fn decimal(digits: &[u8]) -> Option<u32> {
    let put = |number: u32, byte: &u8| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, put) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_the_standard_library_writes_them() {
        for number in [0, 1, 9, 10, 4711, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(Decimal::new(number).as_bytes(), number.to_string().as_bytes());
            assert_eq!(Decimal::padded(number, 7).as_bytes(), format!("{number:07}").as_bytes());
            let mut digits = [0; 16];
            put_hex(number, &mut digits);
            assert_eq!(digits.as_slice(), format!("{number:016x}").as_bytes());
            assert_eq!(hex(&digits), Some(number));
        }
        assert_eq!((hex(b"1G"), hex(b"A"), hex(&[b'0'; 17])), (None, None, None));
        assert_eq!(
            [decimal(b""), decimal(b"4294967296"), decimal(b"-1"), decimal(b"007")],
            [None, None, None, Some(7)]
        );
    }
}
