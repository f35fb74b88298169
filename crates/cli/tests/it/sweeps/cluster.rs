//! A Slurm of its own on this machine: its folder, ports, key and user. It needs no service and leaves none.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The number of Debian's user without rights.
const UNPRIVILEGED: u32 = 65534;

/// A cluster. All its processes are children of this one, and end with it.
pub struct Cluster {
    folder: tempfile::TempDir,
    /// The user, unless it is this one.
    user: Option<u32>,
    /// The port of the controller. Those of the nodes follow.
    port: u16,
    nodes: u16,
}

impl Cluster {
    /// Whether the machine has the programs.
    pub fn can() -> bool {
        let is_there =
            |name: &str| ["/usr/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(name).exists());
        let missing =
            ["munged", "slurmctld", "slurmd", "sbatch", "setpriv"].into_iter().find(|name| !is_there(name));
        if let Some(missing) = missing {
            crate::common::machine::skipped(missing);
        }
        missing.is_none()
    }

    /// Starts a cluster of nodes with one processor each; as a user without rights if `is_ordinary`.
    pub fn start(nodes: u16, is_ordinary: bool) -> Self {
        // Below the ports that the kernel gives to connections.
        let port = 20_000 + (std::process::id() % 1000) as u16 * 10 + if is_ordinary { 5 } else { 0 };
        let folder = tempfile::Builder::new().prefix("netrig-slurm-").tempdir_in("/tmp").unwrap();
        let cluster = Self { folder, user: is_ordinary.then_some(UNPRIVILEGED), port, nodes };
        cluster.write();
        cluster.begin(
            "munged",
            &[
                "--foreground",
                "--force",
                &format!("--key-file={}", cluster.at("munge/key")),
                &format!("--socket={}", cluster.at("mrun/socket")),
                &format!("--pid-file={}", cluster.at("mrun/pid")),
                &format!("--log-file={}", cluster.at("munge/log")),
                &format!("--seed-file={}", cluster.at("munge/seed")),
                "--num-threads=2",
            ],
        );
        let socket = cluster.folder.path().join("mrun/socket");
        super::wait_for("munged", || socket.exists());
        cluster.start_controller();
        for node in 1..=nodes {
            cluster.begin("slurmd", &["-D", "-f", &cluster.at("slurm.conf"), "-N", &format!("node{node}")]);
        }
        let all = nodes.to_string();
        super::wait_for("a cluster of idle nodes", || {
            cluster.slurm("sinfo", &["-h", "-t", "idle", "-o", "%D"]).trim() == all
        });
        cluster
    }

    /// The path of a file of the cluster.
    pub fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A folder that the cluster's user owns.
    pub fn owned(&self, path: &Path) {
        fs::create_dir_all(path).unwrap();
        if let Some(user) = self.user {
            chown(path, Some(user), Some(user)).unwrap();
        }
    }

    /// A program as the cluster's user, with its configuration.
    pub fn command(&self, program: &str) -> Command {
        let mut command = match self.user {
            None => Command::new(program),
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.args([
                    &format!("--reuid={user}"),
                    &format!("--regid={user}"),
                    "--clear-groups",
                    program,
                ]);
                command
            }
        };
        command.env("SLURM_CONF", self.at("slurm.conf")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    /// What a program of Slurm prints.
    pub fn slurm(&self, program: &str, arguments: &[&str]) -> String {
        let output: Output = self.command(program).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The tasks and the nodes with the reasons of their states, and the ends of the daemons' logs.
    pub fn state(&self) -> String {
        let mut state =
            self.slurm("squeue", &["--array", "--states=all", "--format=%A %j %K %t %N %r %M %m"]);
        state += &self.slurm("sinfo", &["--Node", "--format=%N %T %E"]);
        for entry in fs::read_dir(self.at("log")).unwrap().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(40)..].join("\n");
            state += &format!("{}:\n{last}\n", entry.path().display());
        }
        state
    }

    /// Does the work of an operator: a controller that crashed while tasks ran starts them a second time, calls them duplicate jobs,
    /// and drains their nodes until an operator resumes them.
    pub fn resume_drained(&self) {
        let nodes = self.slurm("sinfo", &["--noheader", "--Node", "--states=drain,drained", "--format=%N"]);
        for node in nodes.lines() {
            self.slurm("scontrol", &["update", &format!("NodeName={}", node.trim()), "State=RESUME"]);
        }
    }

    /// Ends the controller as a crash would.
    pub fn kill_controller(&self) {
        self.kill("slurmctld.pid");
    }

    pub fn start_controller(&self) {
        self.begin("slurmctld", &["-D", "-f", &self.at("slurm.conf")]);
    }

    /// Ends the daemon of a node as a crash would.
    pub fn kill_node(&self, node: &str) {
        self.kill(&format!("slurmd-{node}.pid"));
    }

    /// Starts a daemon in the background. The kernel ends it with this process.
    fn begin(&self, program: &str, arguments: &[&str]) {
        let log = fs::File::create(
            self.at(&format!("{program}-{}.out", arguments.last().unwrap_or(&"").replace('/', "-"))),
        )
        .unwrap();
        let mut command = self.command("setpriv");
        let child = command
            .args(["--pdeathsig", "KILL", "--", &format!("/usr/sbin/{program}")])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        // It is found again by its environment.
        drop(child);
    }

    fn kill(&self, pid_file: &str) {
        let path = self.folder.path().join("run").join(pid_file);
        let pid: i32 = fs::read_to_string(&path).unwrap().trim().parse().unwrap();
        kill(pid);
    }

    /// The processes of the cluster and of its tasks: they have its configuration in their environment.
    fn processes(&self) -> Vec<i32> {
        let mark = format!("SLURM_CONF={}", self.at("slurm.conf"));
        let is_ours = |entry: &fs::DirEntry| {
            fs::read(entry.path().join("environ"))
                .is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == mark.as_bytes()))
        };
        let own = std::process::id() as i32;
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter(is_ours)
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| *pid != own)
            .collect()
    }

    fn write(&self) {
        fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        self.owned(self.folder.path());
        for name in ["munge", "mrun", "state", "log", "run", "spool"] {
            self.owned(&self.folder.path().join(name));
        }
        for node in 1..=self.nodes {
            self.owned(&self.folder.path().join(format!("spool/node{node}")));
        }
        fs::set_permissions(self.at("munge"), fs::Permissions::from_mode(0o700)).unwrap();
        let key: Vec<u8> = (0..1024).map(|n| (n * 31 % 251) as u8).collect();
        fs::write(self.at("munge/key"), key).unwrap();
        fs::set_permissions(self.at("munge/key"), fs::Permissions::from_mode(0o600)).unwrap();
        if let Some(user) = self.user {
            chown(self.at("munge/key"), Some(user), Some(user)).unwrap();
        }
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap();
        let user = if self.user.is_some() { "nobody" } else { "root" };
        let folder = self.folder.path().display();
        let nodes: String = (1..=self.nodes)
            .map(|node| {
                let port = self.port + node;
                format!("NodeName=node{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 RealMemory=4000 State=UNKNOWN\n")
            })
            .collect();
        let config = format!(
            "ClusterName=netrig\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/munge\nAuthInfo=socket={folder}/mrun/socket,cred_expire=20\nMessageTimeout=30\nCredType=cred/munge\n\
             StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool/%n\n\
             SlurmctldPidFile={folder}/run/slurmctld.pid\nSlurmdPidFile={folder}/run/slurmd-%n.pid\n\
             SlurmctldLogFile={folder}/log/slurmctld.log\nSlurmdLogFile={folder}/log/slurmd-%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/backfill\n\
             SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,default_queue_depth=1000\n\
             AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
             ReturnToService=2\nSlurmdTimeout=10\nSlurmctldTimeout=30\nKillWait=2\nMinJobAge=300\n\
             SlurmdParameters=config_overrides\n{nodes}\
             PartitionName=p Nodes=node[1-{}] Default=YES MaxTime=INFINITE State=UP\n",
            self.port, self.nodes
        );
        fs::write(self.at("slurm.conf"), config).unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let start = Instant::now();
        // A task that ends may have started another process meanwhile.
        while start.elapsed() < Duration::from_secs(20) {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            left.into_iter().for_each(kill);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

pub fn kill(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        // It may be gone.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
