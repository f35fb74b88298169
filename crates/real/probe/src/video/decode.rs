//! Decodes video with ffmpeg: takes pictures and returns frames, each with the index of its picture.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use netrig_traffic::rtp::AccessUnit;

use crate::{ProbeError, ProbeResult};

/// Time limit of ffmpeg: a decoder of damaged video might not terminate.
const PATIENCE: Duration = Duration::from_secs(120);

/// Maximum bytes of decoded frames. This is about a minute of 320 x 180, or a few seconds of full size.
const MOST_BYTES: u64 = 512 << 20;

/// A frame (YUV 4:2:0, 8 bits): a luma plane, and two chroma planes of half the width and height.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoFrame {
    /// Samples in a row of luma.
    pub width: usize,
    /// Rows of luma.
    pub height: usize,
    /// The concatenated planes.
    pub planes: Vec<u8>,
}

impl VideoFrame {
    /// The plane of luma.
    pub fn luma(&self) -> &[u8] {
        &self.planes[..self.width * self.height]
    }

    /// A black frame.
    pub fn black(width: usize, height: usize) -> Self {
        let chroma = width.div_ceil(2) * height.div_ceil(2);
        let planes = [vec![16; width * height], vec![128; 2 * chroma]].concat();
        Self { width, height, planes }
    }

    /// Joins frames of the same size side by side, the first on the left. `None` if the sizes differ or are odd.
    pub fn beside(frames: &[&Self]) -> Option<Self> {
        let first = frames.first()?;
        let (width, height) = (first.width, first.height);
        let alike = frames.iter().all(|frame| (frame.width, frame.height) == (width, height));
        // The chroma planes of frames with odd sizes cannot be joined.
        if !alike || !width.is_multiple_of(2) || !height.is_multiple_of(2) {
            return None;
        }
        let mut planes = Vec::new();
        let (luma, colour) = (width * height, width * height / 4);
        for (from, columns, rows) in
            [(0, width, height), (luma, width / 2, height / 2), (luma + colour, width / 2, height / 2)]
        {
            for row in 0..rows {
                for frame in frames {
                    planes.extend(&frame.planes[from + row * columns..][..columns]);
                }
            }
        }
        Some(Self { width: width * frames.len(), height, planes })
    }
}

/// Whether ffmpeg is installed.
pub fn has_ffmpeg() -> bool {
    let run = Command::new("ffmpeg")
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    run.is_ok_and(|status| status.success())
}

/// Decodes pictures. Returns the frame of each picture, `None` where the decoder could not produce one. The decoder
/// conceals missing parts in its own way.
///
/// Fails if ffmpeg is not installed or fails.
pub fn decode(pictures: &[AccessUnit]) -> ProbeResult<Vec<Option<VideoFrame>>> {
    // With `-max_error_rate 1`, ffmpeg does not fail because of damaged pictures. With several decoding threads, the
    // concealment of missing parts depends on their timing. With one thread, the same packets always give the same
    // frames.
    let mut arguments = Vec::from_iter("-max_error_rate 1 -threads 1 -f ivf -i pipe:0".split(' '));
    // Two outputs of the same frames: their bytes, and their times.
    for output in ["-f rawvideo pipe:1", "-c:v rawvideo -f framecrc pipe:2"] {
        arguments.extend("-map 0:v -vsync passthrough -pix_fmt yuv420p".split(' ').chain(output.split(' ')));
    }
    let (status, bytes, listing) = ffmpeg(&arguments, &container(pictures))?;
    let list = FrameList::read(&listing);
    // An empty output is not a failure if ffmpeg exited and was not killed by a signal.
    let is_empty = list.size.is_none() && bytes.is_empty();
    let is_fine = status.success() || is_empty && status.code().is_some();
    if !is_fine {
        return Err(failed(status));
    }
    list.frames(&bytes, pictures.len())
}

/// Encodes a frame as a PNG file.
///
/// Fails if ffmpeg is not installed or fails.
pub fn png(frame: &VideoFrame) -> ProbeResult<Vec<u8>> {
    let size = format!("{}x{}", frame.width, frame.height);
    let mut arguments = vec!["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", &size, "-i", "pipe:0"];
    arguments.extend(["-frames:v", "1", "-c:v", "png", "-f", "image2pipe", "pipe:1"]);
    let (status, bytes, _) = ffmpeg(&arguments, &frame.planes)?;
    if status.success() && !bytes.is_empty() { Ok(bytes) } else { Err(failed(status)) }
}

fn failed(status: ExitStatus) -> ProbeError {
    ProbeError::Ffmpeg(format!("it ended with {status}"))
}

/// Writes pictures in the IVF format: a file header of 32 bytes, and a header of 12 bytes before each picture. The time
/// of a picture is its index. Empty pictures are omitted.
fn container(pictures: &[AccessUnit]) -> Vec<u8> {
    let mut file = b"DKIF\0\0\x20\0H264".to_vec();
    // Width and height are 0, because the parameter sets contain them. The frame rate, 25/1, and the number of pictures
    // follow.
    file.extend([0, 0, 0, 0]);
    for number in [25_u32, 1, pictures.len() as u32, 0] {
        file.extend(number.to_le_bytes());
    }
    for (number, picture) in (0_u64..).zip(pictures).filter(|(_, picture)| !picture.units.is_empty()) {
        let bytes = picture.byte_stream();
        file.extend((bytes.len() as u32).to_le_bytes());
        file.extend(number.to_le_bytes());
        file.extend(bytes);
    }
    file
}

/// The list of written frames that ffmpeg outputs.
struct FrameList {
    size: Option<(usize, usize)>,
    /// Time of each frame, which is the index of its picture.
    numbers: Vec<i64>,
}

impl FrameList {
    /// Parses lines of `framecrc`: `#dimensions 0: 320x180`, then `stream, decoding time, time, duration, size,
    /// checksum` for each frame.
    fn read(text: &str) -> Self {
        let size = |line: &str| {
            let (width, height) = line.strip_prefix("#dimensions 0: ")?.split_once('x')?;
            Some((width.parse().ok()?, height.parse().ok()?))
        };
        let number = |line: &str| line.split(',').nth(2)?.trim().parse().ok();
        Self {
            size: text.lines().find_map(size),
            numbers: text.lines().filter(|line| !line.starts_with('#')).filter_map(number).collect(),
        }
    }

    /// Splits `bytes` into frames, indexed by picture.
    ///
    /// Fails if the number of frames differs from the list, because a frame that ffmpeg did not output must not count
    /// as lost on the path.
    fn frames(&self, bytes: &[u8], pictures: usize) -> ProbeResult<Vec<Option<VideoFrame>>> {
        let mut frames = vec![None; pictures];
        let (width, height) = self.size.unwrap_or((0, 0));
        let length = width * height + 2 * width.div_ceil(2) * height.div_ceil(2);
        if bytes.len() != self.numbers.len() * length {
            let (listing, received) = (self.numbers.len(), bytes.len());
            return Err(ProbeError::Ffmpeg(format!(
                "it listed {listing} frames of {length} B, but wrote {received} B"
            )));
        }
        for (number, planes) in self.numbers.iter().zip(bytes.chunks_exact(length.max(1))) {
            if let Some(frame) = usize::try_from(*number).ok().and_then(|number| frames.get_mut(number)) {
                *frame = Some(VideoFrame { width, height, planes: planes.to_vec() });
            }
        }
        Ok(frames)
    }
}

/// Runs ffmpeg with this input. Returns its exit status, its output, and its error output.
fn ffmpeg(arguments: &[&str], input: &[u8]) -> ProbeResult<(ExitStatus, Vec<u8>, String)> {
    let mut child = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "quiet"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ProbeError::NoFfmpeg,
            _ => ProbeError::Ffmpeg(error.to_string()),
        })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        // ffmpeg may exit before it has read all input. Its exit status shows whether this is an error.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
        let frames = scope.spawn(move || read_all(stdout, MOST_BYTES));
        let words = scope.spawn(move || read_all(stderr, MOST_BYTES));
        let status = wait(&mut child);
        let (Ok(frames), Ok(words)) = (frames.join(), words.join()) else {
            return Err(ProbeError::Panicked);
        };
        let broken = |error: io::Error| ProbeError::Ffmpeg(error.to_string());
        let words = String::from_utf8_lossy(&words.map_err(broken)?).into_owned();
        Ok((status.map_err(broken)?, frames.map_err(broken)?, words))
    })
}

/// Reads a pipe to its end. Fails if there are more than `most` bytes.
fn read_all(pipe: Option<impl Read>, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(most + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!(
            "it wrote more than the {most} B that are kept: use a shorter clip"
        )));
    }
    Ok(bytes)
}

/// Waits until the process ends, and kills it at the time limit.
fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            return child.wait();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_framecrc() {
        let text = "#software: x\n#tb 0: 1/25\n#dimensions 0: 320x180\n0,  0,  0, 1, 86400, 0x2b\n0, 2, 2, 1, 86400, 0x40\nodd\n";
        let list = FrameList::read(text);
        assert_eq!((list.size, list.numbers), (Some((320, 180)), vec![0, 2]));
        assert!(FrameList::read("").size.is_none());
    }

    /// Frames that are listed but have no bytes must not count as lost on the path.
    #[test]
    fn as_many_frames_as_were_told_of() {
        // A frame of 2 x 2 has four bytes of luma and one byte in each chroma plane.
        let list = FrameList { size: Some((2, 2)), numbers: vec![0, 2] };
        let frames = list.frames(&[7; 12], 3).unwrap();
        assert_eq!(frames.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
        for so_many in [0, 6, 11, 13, 18] {
            let why = list.frames(&vec![7; so_many], 3).unwrap_err().to_string();
            assert_eq!(why, format!("ffmpeg: it listed 2 frames of 6 B, but wrote {so_many} B"));
        }
        let nothing = FrameList { size: None, numbers: Vec::new() };
        assert_eq!(nothing.frames(&[], 2).unwrap(), [None, None]);
        assert!(nothing.frames(&[7], 2).is_err());
    }

    #[test]
    fn what_is_not_kept_is_an_error() {
        assert_eq!(read_all(Some(&[7; 5][..]), 5).unwrap(), [7; 5]);
        let why = read_all(Some(&[7; 6][..]), 5).unwrap_err().to_string();
        assert!(why.starts_with("it wrote more than the 5 B that are kept"), "{why}");
    }

    #[test]
    fn frames_stand_beside_each_other() {
        let frame = |luma: u8| VideoFrame {
            width: 2,
            height: 2,
            planes: vec![luma, luma, luma, luma, luma + 1, luma + 2],
        };
        let both = VideoFrame::beside(&[&frame(10), &frame(20)]).unwrap();
        assert_eq!((both.width, both.height), (4, 2));
        assert_eq!(both.planes, [10, 10, 20, 20, 10, 10, 20, 20, 11, 21, 12, 22]);
        assert!(VideoFrame::beside(&[&frame(10), &VideoFrame::black(4, 2)]).is_none());
        assert!(VideoFrame::beside(&[]).is_none());
    }
}
