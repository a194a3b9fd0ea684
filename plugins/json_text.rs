//! The little JSON that the example plugins in Rust need: the text of an object's members, as it stands.
//! It finds where values begin and end; what is inside them is not checked.
use std::collections::HashMap;

const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// The members of the object that `text` is, by name; None when it is no object or its end is missing.
pub fn members(text: &str) -> Option<HashMap<&str, &str>> {
    let mut found = HashMap::new();
    let mut rest = text.trim_matches(SPACE).strip_prefix('{')?;
    if rest.trim_start_matches(SPACE) == "}" {
        return Some(found);
    }
    loop {
        let (name, after) = split_value(rest)?;
        let (value, after) = split_value(after.trim_start_matches(SPACE).strip_prefix(':')?)?;
        found.insert(name.strip_prefix('"')?.strip_suffix('"')?, value);
        rest = after.trim_start_matches(SPACE);
        if rest == "}" {
            return Some(found);
        }
        rest = rest.strip_prefix(',')?;
    }
}

/// The JSON value that `text` begins with, and what follows it; None when the text ends inside it.
fn split_value(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(SPACE);
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0);
    loop {
        match *bytes.get(at)? {
            b'"' => at = end_of_string(bytes, at)?,
            b'{' | b'[' => (at, depth) = (at + 1, depth + 1),
            byte if !ends_scalar(byte) => {
                at += bytes[at..].iter().take_while(|&&b| !ends_scalar(b)).count()
            }
            _ if depth == 0 => return None,
            b'}' | b']' => (at, depth) = (at + 1, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(text.split_at(at));
        }
    }
}

fn ends_scalar(byte: u8) -> bool {
    b" \t\r\n,:]}".contains(&byte)
}

/// Just past the string that begins at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += 1;
        match *bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 1,
            _ => {}
        }
    }
}
