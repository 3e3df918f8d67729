//! Tokens of a line of JSON, by the strict grammar of RFC 8259. What is common is read here, the rest by jiter.

use jiter::{Jiter, JiterError};

/// A value or the line does not fit, or is no JSON.
#[derive(Debug)]
pub struct Bad;

impl From<JiterError> for Bad {
    fn from(_: JiterError) -> Self {
        Bad
    }
}

/// A place in a line.
#[derive(Default)]
pub struct Cursor<'a> {
    line: &'a str,
    pub at: usize,
    decoded: String,
}

impl<'a> Cursor<'a> {
    pub fn begin(&mut self, line: &'a str) {
        (self.line, self.at) = (line, 0);
    }

    fn byte(&self) -> u8 {
        *self.line.as_bytes().get(self.at).unwrap_or(&0)
    }

    /// The next byte that is no blank, which is not passed; 0 at the end of the line.
    pub fn peek(&mut self) -> u8 {
        while matches!(self.byte(), b' ' | b'\t' | b'\r') {
            self.at += 1;
        }
        self.byte()
    }

    pub fn is_at_end(&mut self) -> bool {
        self.peek();
        self.at == self.line.len()
    }

    /// Pass a byte if it comes next.
    pub fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == byte;
        self.at += usize::from(is_next);
        is_next
    }

    pub fn expect(&mut self, byte: u8) -> Result<(), Bad> {
        self.take(byte).then_some(()).ok_or(Bad)
    }

    /// Pass a text that has no blank if it comes next, without blanks before it.
    pub fn literal(&mut self, text: &str) -> bool {
        let is_next = self.line.as_bytes()[self.at..].starts_with(text.as_bytes());
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    /// Pass a word such as `null`, which begins here.
    pub fn word(&mut self, text: &str) -> Result<(), Bad> {
        self.literal(text).then_some(()).ok_or(Bad)
    }

    /// A string, which begins here.
    pub fn string(&mut self) -> Result<&str, Bad> {
        let start = self.at + 1;
        let rest = &self.line.as_bytes()[start..];
        let length = memchr::memchr2(b'"', b'\\', rest).ok_or(Bad)?;
        if rest[..length].iter().fold(false, |found, &c| found | (c < b' ')) {
            return Err(Bad);
        }
        if rest[length] == b'"' {
            self.at = start + length + 1;
            return Ok(&self.line[start..start + length]);
        }
        let mut json = Jiter::new(&self.line.as_bytes()[self.at..]);
        self.decoded.clear();
        self.decoded.push_str(json.next_str()?);
        self.at += json.current_index();
        Ok(&self.decoded)
    }

    /// A number as it is written, which begins here.
    pub fn number(&mut self) -> Result<&'a str, Bad> {
        let start = self.at;
        self.at += usize::from(self.byte() == b'-');
        let first = self.byte();
        if self.digits()? > 1 && first == b'0' {
            return Err(Bad);
        }
        if self.byte() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), b'e' | b'E') {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), b'+' | b'-'));
            self.digits()?;
        }
        Ok(&self.line[start..self.at])
    }

    fn digits(&mut self) -> Result<usize, Bad> {
        let start = self.at;
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        (self.at > start).then_some(self.at - start).ok_or(Bad)
    }

    /// Any value as it is written, which begins here.
    pub fn raw(&mut self) -> Result<&'a str, Bad> {
        let start = self.at;
        let mut json = Jiter::new(&self.line.as_bytes()[start..]);
        json.next_skip()?;
        self.at += json.current_index();
        Ok(&self.line[start..self.at])
    }
}
