//! Makes the scenario of the other side: it receives the messages that a scenario sends, and sends those that the
//! scenario awaits.

use std::fmt::Write as _;

use netrig_sip_tester::scenario::{LaxElement, read_lax_xml};

/// A request that the scenario has sent.
struct SentRequest {
    method: String,
    number: usize,
    has_to_tag: bool,
    is_answered: bool,
}

struct Mirror {
    /// The address of the side that runs the scenario.
    peer: String,
    out: String,
    sent: Vec<SentRequest>,
    /// Number of requests that the other side has sent.
    own: usize,
    /// Whether the other side starts the call.
    is_caller: bool,
    variables: Vec<String>,
    /// The CSeq number of the last INVITE of the other side, for its ACK.
    last_invite: usize,
}

/// The scenario for the other side of the scenario `text`, which runs at `peer`. `None` if the scenario has no other
/// side or needs a third process.
pub fn mirrored(text: &str, peer: &str) -> Option<String> {
    let (root, _) = read_lax_xml(text).ok()?;
    let steps: Vec<&LaxElement> =
        root.children.iter().filter(|child| ["send", "recv"].contains(&&*child.name)).collect();
    if root.children.iter().any(|child| child.name.ends_with("Cmd")) {
        return None;
    }
    let is_caller = steps.iter().find(|step| !is_optional(step))?.name == "recv";
    let mut mirror = Mirror {
        peer: peer.to_owned(),
        out: String::new(),
        sent: Vec::new(),
        own: 0,
        is_caller,
        variables: Vec::new(),
        last_invite: 0,
    };
    for step in steps {
        match &*step.name {
            "send" => mirror.receive(step)?,
            _ => mirror.send(step),
        }
    }
    let Mirror { out, variables, .. } = mirror;
    let references = if variables.is_empty() {
        String::new()
    } else {
        format!("<Reference variables=\"{}\"/>\n", variables.join(","))
    };
    Some(format!("<?xml version=\"1.0\"?>\n<scenario name=\"mirror\">\n{out}{references}</scenario>\n"))
}

fn is_optional(step: &LaxElement) -> bool {
    step.attribute("optional").is_some_and(|optional| optional.value != "false")
}

impl Mirror {
    /// Adds a receive step for a message that the scenario sends.
    fn receive(&mut self, step: &LaxElement) -> Option<()> {
        let data = &step.data.as_ref()?.text;
        let mut lines = data.lines().map(str::trim).skip_while(|line| line.is_empty());
        let first = lines.next()?;
        let mut words = first.split(' ');
        let word = words.next()?;
        if word == "SIP/2.0" {
            let status = words.next()?;
            let _ = writeln!(self.out, "<recv response=\"{status}\" rrs=\"true\"/>");
            if status.starts_with(['3', '4', '5', '6']) && self.last_invite == self.own && self.own > 0 {
                self.acknowledge(false);
            }
            return Some(());
        }
        let to = lines.clone().find(|line| line.starts_with("To:") || line.starts_with("t:"));
        let has_to_tag = to.is_some_and(|to| {
            ["tag=", "peer_tag_param", "[$", "[last_"].iter().any(|sign| to.contains(sign))
        }) || lines.clone().any(|line| line.starts_with("[last_To"));
        let number = self.sent.len() + 1;
        if word == "ACK" {
            let _ = writeln!(self.out, "<recv request=\"ACK\"/>");
            return Some(());
        }
        self.variables.extend(["via", "cseq", "from"].map(|name| format!("{name}{number}")));
        let keep = |name: &str, header: &str| {
            format!(
                "<ereg regexp=\".*\" search_in=\"hdr\" header=\"{header}:\" assign_to=\"{name}{number}\"/>"
            )
        };
        let _ = writeln!(
            self.out,
            "<recv request=\"{word}\"><action>{}{}{}</action></recv>",
            keep("via", "Via"),
            keep("cseq", "CSeq"),
            keep("from", "From")
        );
        self.sent.push(SentRequest { method: word.to_owned(), number, has_to_tag, is_answered: false });
        Some(())
    }

    /// Adds a send step for a message that the scenario awaits.
    fn send(&mut self, step: &LaxElement) {
        if is_optional(step) {
            return;
        }
        if let Some(request) = step.attribute("request") {
            match &*request.value {
                "ACK" => self.acknowledge(true),
                method => self.request(method),
            }
            return;
        }
        let Some(status) = step.attribute("response").map(|status| status.value.clone()) else { return };
        let is_provisional = status.starts_with('1');
        let open = self.sent.iter().rposition(|sent| match &*status {
            "487" => sent.method == "INVITE" && !sent.is_answered,
            _ if is_provisional => sent.method == "INVITE" && !sent.is_answered,
            _ => !sent.is_answered,
        });
        let Some(place) = open.or_else(|| self.sent.len().checked_sub(1)) else { return };
        let SentRequest { number, has_to_tag, ref method, .. } = self.sent[place];
        let tag = if has_to_tag { "" } else { ";tag=[pid]M1" };
        let challenge = match &*status {
            "401" => "WWW-Authenticate: Digest realm=\"mirror\", nonce=\"abcdef\", algorithm=MD5\n",
            "407" => "Proxy-Authenticate: Digest realm=\"mirror\", nonce=\"abcdef\", algorithm=MD5\n",
            _ => "",
        };
        let has_body = method == "INVITE" && (status == "200" || status == "183");
        let route = if step.attribute("rrs").is_some() {
            "Record-Route: <sip:[local_ip]:[local_port];lr>\n"
        } else {
            ""
        };
        let again = if is_provisional { "" } else { " retrans=\"500\"" };
        let again = if method == "INVITE" && !is_provisional { again } else { "" };
        let _ = writeln!(
            self.out,
            "<send{again}><![CDATA[\nSIP/2.0 {status} Mirrored\nVia:[$via{number}]\n{route}From:[$from{number}]\n[last_To:]{tag}\n\
             Call-ID: [call_id]\nCSeq:[$cseq{number}]\nContact: <sip:mirror@[local_ip]:[local_port]>\n{challenge}{}]]></send>",
            body(has_body)
        );
        if !is_provisional {
            self.sent[place].is_answered = true;
        }
    }

    /// Adds a request of the other side.
    fn request(&mut self, method: &str) {
        self.own += 1;
        if method == "INVITE" {
            self.last_invite = self.own;
        }
        let (from, to) = self.ends();
        let number = if method == "CANCEL" { self.last_invite } else { self.own };
        let branch = if method == "CANCEL" {
            format!("z9hG4bK-m-{}", self.last_invite)
        } else {
            format!("z9hG4bK-m-{number}")
        };
        let to = if method == "CANCEL" && self.own <= 2 && self.is_caller {
            format!("<sip:service@{}>", self.peer)
        } else {
            to
        };
        let events = if ["SUBSCRIBE", "NOTIFY"].contains(&method) {
            "Event: presence\nSubscription-State: active\n"
        } else {
            ""
        };
        let _ = writeln!(
            self.out,
            "<send retrans=\"500\"><![CDATA[\n{method} sip:service@{} SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch={branch}\n\
             From: {from}\nTo: {to}\nCall-ID: [call_id]\nCSeq: {number} {method}\nMax-Forwards: 70\n\
             Contact: <sip:mirror@[local_ip]:[local_port]>\n{events}{}]]></send>",
            self.peer,
            body(method == "INVITE")
        );
    }

    fn acknowledge(&mut self, is_new: bool) {
        let (from, to) = self.ends();
        let number = self.last_invite;
        let branch = if is_new { format!("z9hG4bK-ma-{number}") } else { format!("z9hG4bK-m-{number}") };
        let _ = writeln!(
            self.out,
            "<send><![CDATA[\nACK sip:service@{} SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch={branch}\n\
             From: {from}\nTo: {to}\nCall-ID: [call_id]\nCSeq: {number} ACK\nMax-Forwards: 70\n{}]]></send>",
            self.peer,
            body(false)
        );
    }

    /// The From and To values of requests of the other side.
    fn ends(&self) -> (String, String) {
        if self.is_caller {
            let from = "<sip:mirror@[local_ip]:[local_port]>;tag=[pid]M1".to_owned();
            (from, format!("<sip:service@{}>[peer_tag_param]", self.peer))
        } else {
            ("<sip:mirror@[local_ip]:[local_port]>;tag=[pid]M1".to_owned(), "[$from1]".to_owned())
        }
    }
}

fn body(has_one: bool) -> &'static str {
    if has_one {
        "Content-Type: application/sdp\nContent-Length: [len]\n\nv=0\no=m 1 1 IN IP[local_ip_type] [local_ip]\ns=-\n\
         c=IN IP[media_ip_type] [media_ip]\nt=0 0\nm=audio [media_port] RTP/AVP 0\na=rtpmap:0 PCMU/8000\n"
    } else {
        "Content-Length: 0\n\n"
    }
}
