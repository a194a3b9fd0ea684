//! JSON in a small compass: read, looked into, written. Numbers stay the text that they were.
#![allow(dead_code)] // what this plugin does not need yet
use std::fmt::{self, Display, Formatter, Write};

const DEEPEST: usize = 200;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The value that `bytes` are, and nothing else; or why they are none.
    pub fn parse(bytes: &[u8]) -> Result<Json, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8")?;
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at < text.len() {
            return Err(reader.wrong("more after the value"));
        }
        Ok(value)
    }

    pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
        Json::Object(
            members
                .map(|(name, value)| (name.to_string(), value))
                .into(),
        )
    }

    /// A member of an object; of several with one name the last counts.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members
                .iter()
                .rev()
                .find(|(each, _)| each == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn integer(&self) -> Option<i64> {
        match self {
            Json::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    pub fn list(&self) -> Option<&[Json]> {
        match self {
            Json::List(values) => Some(values),
            _ => None,
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_string())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Json {
        Json::Number(number.to_string())
    }
}

impl Display for Json {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Bool(value) => write!(out, "{value}"),
            Json::Number(digits) => out.write_str(digits),
            Json::Text(text) => write_text(out, text),
            Json::List(values) => {
                out.write_char('[')?;
                for (place, value) in values.iter().enumerate() {
                    write!(out, "{}{value}", if place > 0 { "," } else { "" })?;
                }
                out.write_char(']')
            }
            Json::Object(members) => {
                out.write_char('{')?;
                for (place, (name, value)) in members.iter().enumerate() {
                    out.write_str(if place > 0 { "," } else { "" })?;
                    write_text(out, name)?;
                    write!(out, ":{value}")?;
                }
                out.write_char('}')
            }
        }
    }
}

fn write_text(out: &mut Formatter, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for each in text.chars() {
        match each {
            '"' | '\\' => write!(out, "\\{each}")?,
            '\n' => out.write_str("\\n")?,
            _ if each < ' ' => write!(out, "\\u{:04x}", each as u32)?,
            _ => out.write_char(each)?,
        }
    }
    out.write_char('"')
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> String {
        format!("{what} at byte {}", self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Whether `word` comes next; then it is taken.
    fn take(&mut self, word: &str) -> bool {
        let there = self.text[self.at..].starts_with(word);
        if there {
            self.at += word.len();
        }
        there
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        self.space();
        match self.peek() {
            Some(b'{' | b'[') if depth >= DEEPEST => Err(self.wrong("too deeply nested")),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.list(depth + 1),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take("null") => Ok(Json::Null),
            _ if self.take("true") => Ok(Json::Bool(true)),
            _ if self.take("false") => Ok(Json::Bool(false)),
            _ => Err(self.wrong("no value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        let mut members = Vec::new();
        self.at += 1;
        self.space();
        while !self.take("}") {
            if !members.is_empty() && !self.take(",") {
                return Err(self.wrong("no comma"));
            }
            self.space();
            let name = self.string()?;
            self.space();
            if !self.take(":") {
                return Err(self.wrong("no colon"));
            }
            members.push((name, self.value(depth)?));
            self.space();
        }
        Ok(Json::Object(members))
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        let mut values = Vec::new();
        self.at += 1;
        self.space();
        while !self.take("]") {
            if !values.is_empty() && !self.take(",") {
                return Err(self.wrong("no comma"));
            }
            values.push(self.value(depth)?);
            self.space();
        }
        Ok(Json::List(values))
    }

    fn digits(&mut self) -> Result<(), String> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == from {
            Err(self.wrong("no digit"))
        } else {
            Ok(())
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let from = self.at;
        self.take("-");
        if !self.take("0") {
            self.digits()?;
        }
        if self.take(".") {
            self.digits()?;
        }
        if self.take("e") || self.take("E") {
            let _ = self.take("+") || self.take("-");
            self.digits()?;
        }
        Ok(Json::Number(self.text[from..self.at].to_string()))
    }

    fn string(&mut self) -> Result<String, String> {
        if !self.take("\"") {
            return Err(self.wrong("no text"));
        }
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest
                .find(|each| each == '"' || each == '\\' || each < ' ')
                .ok_or("a text without its end")?;
            text.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => text.push(self.escaped()?),
                _ => return Err(self.wrong("a control character")),
            }
        }
        self.at += 1;
        Ok(text)
    }

    fn escaped(&mut self) -> Result<char, String> {
        self.at += 2;
        Ok(match self.text.as_bytes().get(self.at - 1) {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            Some(&each @ (b'"' | b'\\' | b'/')) => each as char,
            _ => return Err("an unknown escape".to_string()),
        })
    }

    /// Four hex digits, or two times four; half of such a pair is no character and becomes U+FFFD.
    fn unicode(&mut self) -> Result<char, String> {
        let first = self.hex()?;
        if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.hex()?;
            if (0xDC00..0xE000).contains(&second) {
                let joined = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|four| four.bytes().all(|each| each.is_ascii_hexdigit()));
        self.at += 4;
        digits
            .and_then(|four| u32::from_str_radix(four, 16).ok())
            .ok_or("no four hex digits".to_string())
    }
}
