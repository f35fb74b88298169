//! Editing of a message in the user's editor.

use std::io::Write as _;
use std::process::Command;

use bytes::Bytes;
use netrig_host::user_file;

/// Opens a message in `$VISUAL`, `$EDITOR` or `vi`. Returns the edited message, which need not be a correct one.
/// `Content-Length` is set to the length of the edited body, unless the user changed it.
pub fn edited(message: &Bytes) -> Result<Bytes, String> {
    let folder = std::env::temp_dir();
    let file = folder.join(format!("netrig-sip-call-{}.txt", std::process::id()));
    let text = String::from_utf8_lossy(message).replace("\r\n", "\n");
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    options.open(&file).and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)?;
    let done = open(&file).and_then(|()| {
        user_file::read_text(&file, user_file::LONGEST_DATA)
            .map_err(|error| format!("{}: {error}", file.display()))
    });
    // The editor may have removed the file.
    let _ = std::fs::remove_file(&file);
    Ok(with_length(&text, &done?))
}

fn open(file: &std::path::Path) -> Result<(), String> {
    let named = |name| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let ended = Command::new(program).args(words).arg(file).status();
    let status = ended.map_err(|error| format!("cannot start `{program}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{program}` has failed: {status}")) }
}

fn with_length(before: &str, after: &str) -> Bytes {
    let parts = |text: &str| {
        let (head, body) = text.split_once("\n\n").unwrap_or((text.trim_end(), ""));
        (head.to_owned(), body.replace('\n', "\r\n"))
    };
    let ((old_head, _), (head, body)) = (parts(before), parts(after));
    let length = |head: &str| {
        head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-length:")).map(str::to_owned)
    };
    let head = match (length(&old_head), length(&head)) {
        (Some(old), Some(new)) if old == new => {
            head.replace(&new, &format!("Content-Length: {}", body.len()))
        }
        _ => head,
    };
    format!("{}\r\n\r\n{body}", head.replace('\n', "\r\n")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_follows_the_body_unless_it_was_changed() {
        let before = "X a\nContent-Length: 3\n\na\n";
        let text = |after: &str| String::from_utf8(with_length(before, after).to_vec()).unwrap();
        assert_eq!(text(before), "X a\r\nContent-Length: 3\r\n\r\na\r\n");
        assert_eq!(text("X a\nContent-Length: 3\n\nabc\n"), "X a\r\nContent-Length: 5\r\n\r\nabc\r\n");
        assert_eq!(text("X a\nContent-Length: 9\n\nabc\n"), "X a\r\nContent-Length: 9\r\n\r\nabc\r\n");
        assert_eq!(text("X a\n"), "X a\r\n\r\n");
    }
}
