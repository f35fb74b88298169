//! A file arrives whole: whatever the transport, the size of its messages, the number of streams and the loss, a
//! connection that closes with everything delivered has delivered every byte.

use netrig_tests::simulate;

const FILE: u64 = 1_000_003;

fn experiment() -> String {
    format!(
        r#"
format = 1
name = "whole-files"
duration = "1000 s"
ends_with = "file"
[factors]
transport = ["tcp", "tcp-nodelay", "sctp-1", "sctp-5", "sctp-nodelay"]
message = ["100 B", "365 B", "1460 B", "64 KB", "300 KB"]
streams = [1, 5]
loss = ["0 %", "5 %"]
[replications]
count = 1
[node.a]
[node.b]
[link.line]
between = ["a", "b"]
rate = "20 Mbit/s"
delay = "20 ms"
queue = {{ kind = "fifo", packets = 50 }}
loss = {{ kind = "bernoulli", probability = "${{loss}}" }}
[transport.tcp]
kind = "tcp"
[transport.tcp-nodelay]
kind = "tcp"
nagle = "off"
[transport.sctp-1]
kind = "sctp"
[transport.sctp-5]
kind = "sctp"
streams = 5
[transport.sctp-nodelay]
kind = "sctp"
nagle = false
streams = 5
[flow.file]
from = "a"
to = "b"
transport = "${{transport}}"
application = {{ kind = "bulk", bytes = "{FILE} B", message = "${{message}}", streams = "${{streams}}" }}
[response.received]
of = "flow.file"
metric = "received"
[response.rate]
of = "flow.file"
metric = "transfer_rate"
"#
    )
}

#[test]
fn every_byte_arrives() {
    let runs = simulate(&experiment(), None, 1, |_| true);
    assert_eq!(runs.len(), 5 * 5 * 2 * 2);
    for run in runs {
        assert_eq!(run.responses["received"], FILE as f64, "{:?}", run.levels);
        assert!(run.responses.contains_key("rate"), "{:?}: the transfer did not finish", run.levels);
    }
}
