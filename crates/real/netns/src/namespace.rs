//! A network namespace, and a thread that runs in it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use rustix::io::Errno;
use rustix::mount::{
    MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change, unmount,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{ErrorContext, TestbedError};
use crate::netlink::NetlinkError;
use crate::sys::unshare_network;

/// The folder in which `ip netns` binds namespaces.
pub(crate) const FOLDER: &str = "/run/netns";
/// NSFS_MAGIC of Linux's `magic.h`: the file system of namespaces.
const NSFS: i64 = 0x6e73_6673;

/// The identity of a namespace: its device and inode. It is unique as long as the namespace exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespaceId {
    pub(crate) device: u64,
    pub(crate) number: u64,
}

impl NamespaceId {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { device: metadata.dev(), number: metadata.ino() })
    }
}

/// A thread in a namespace. The sockets that it opens and the processes that it starts are in that namespace.
/// Processes that die with the thread that started them (`PR_SET_PDEATHSIG`) end with this thread.
struct NamespaceThread {
    /// The channel has no buffer: the caller waits until the thread takes the job, and then waits for its
    /// result.
    jobs: Option<SyncSender<Box<dyn FnOnce() + Send>>>,
    thread: Option<JoinHandle<()>>,
}

impl NamespaceThread {
    fn start(name: &str) -> io::Result<Self> {
        let (jobs, inbox) = sync_channel::<Box<dyn FnOnce() + Send>>(0);
        let thread =
            Builder::new().name(name.to_owned()).spawn(move || inbox.into_iter().for_each(|job| job()))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (answer, answered) = sync_channel(1);
        let job = move || {
            // The caller waits below, so the channel is open.
            let _ = answer.send(catch_unwind(AssertUnwindSafe(job)));
        };
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(Box::new(job)).is_ok());
        assert!(sent, "the thread takes jobs until it is dropped");
        match answered.recv() {
            Ok(Ok(answer)) => answer,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => unreachable!("a job that was taken is answered, even if it panics"),
        }
    }
}

impl Drop for NamespaceThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // The thread ends after its last job. A job's panic is caught.
            let _ = thread.join();
        }
    }
}

/// A network namespace with a thread in it.
pub(crate) struct NetworkNamespace {
    name: String,
    file: File,
    inode: NamespaceId,
    thread: NamespaceThread,
}

impl NetworkNamespace {
    /// Makes a namespace that is not bound in the file system. It ends when this value is dropped.
    pub(crate) fn unshare(name: &str) -> Result<Self, TestbedError> {
        let thread = NamespaceThread::start(name).context(name, || "start a thread".into())?;
        let file = thread.run(|| {
            unshare_network()?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = file.context(name, || "make a network namespace".into())?;
        Self::with_thread(name, file, thread)
    }

    /// Starts a thread in the existing namespace that `file` refers to.
    pub(crate) fn enter(name: &str, file: File) -> Result<Self, TestbedError> {
        let thread = NamespaceThread::start(name).context(name, || "start a thread".into())?;
        let entered = thread.run(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map(|()| file)
        });
        let file = entered.context(name, || "enter the namespace".into())?;
        Self::with_thread(name, file, thread)
    }

    fn with_thread(name: &str, file: File, thread: NamespaceThread) -> Result<Self, TestbedError> {
        let inode = NamespaceId::of(&file).context(name, || "read the identity of the namespace".into())?;
        Ok(Self { name: name.to_owned(), file, inode, thread })
    }

    /// Binds the namespace in the folder of `ip netns`. It then outlives this process.
    pub(crate) fn bind(&self) -> Result<(), TestbedError> {
        let path = path(&self.name);
        prepare_folder().path_context(Path::new(FOLDER), "prepare the folder")?;
        // If the file exists, it belongs to another owner, and this fails.
        File::create_new(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => TestbedError::Collision(path.clone()),
            _ => TestbedError::Refused {
                action: "make the file of the namespace".into(),
                place: path.display().to_string(),
                source: error,
            },
        })?;
        let target = path.clone();
        let bound = self.run(move || mount_bind("/proc/thread-self/ns/net", target));
        bound.path_context(&path, "bind the namespace")
    }

    /// The name of the namespace, which is also its name for `ip netns`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn inode(&self) -> NamespaceId {
        self.inode
    }

    /// Runs a job on the thread of the namespace.
    pub(crate) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.thread.run(job)
    }

    /// Runs a netlink request on the thread of the namespace. `action` describes the request in an error.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        action: impl FnOnce() -> String,
        job: impl FnOnce() -> Result<T, NetlinkError> + Send + 'static,
    ) -> Result<T, TestbedError> {
        self.run(job).map_err(|refusal| match refusal {
            NetlinkError::Kernel(source) => {
                TestbedError::Refused { action: action(), place: self.name.clone(), source }
            }
            NetlinkError::Unreadable(why) => {
                TestbedError::Unreadable { action: action(), place: self.name.clone(), why }
            }
        })
    }
}

impl AsFd for NetworkNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes the folder a shared mount, as `ip netns add` does. If `ip netns` made it a mount only after our
/// namespaces were bound in it, they would be mounted twice, and one of the two mounts could not be reached. If
/// the mount were not shared, processes of `ip netns exec` would keep the mounts that this crate removes.
fn prepare_folder() -> io::Result<()> {
    std::fs::create_dir_all(FOLDER)?;
    let folder = File::open(FOLDER)?;
    // `ip netns` takes the same lock while it prepares the folder.
    folder.lock()?;
    let share = || mount_change(FOLDER, MountPropagationFlags::SHARED | MountPropagationFlags::REC);
    match share() {
        Err(Errno::INVAL) => {
            mount_bind_recursive(FOLDER, FOLDER)?;
            Ok(share()?)
        }
        shared => Ok(shared?),
    }
}

/// The path at which a namespace of this name is bound.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// What is found at the path of a namespace.
pub(crate) enum NamespaceBinding {
    /// The expected namespace.
    Here(File),
    /// A file to which no namespace is bound.
    Bare,
    /// No file exists.
    Gone,
    /// Another namespace is bound.
    Other,
}

/// Compares the namespace that is bound as `name` with `inode`.
pub(crate) fn look(name: &str, inode: NamespaceId) -> Result<NamespaceBinding, TestbedError> {
    let path = path(name);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(NamespaceBinding::Gone),
        file => file.path_context(&path, "open the namespace")?,
    };
    let system = rustix::fs::fstatfs(&file).path_context(&path, "read the type of the file system")?;
    if system.f_type != NSFS {
        return Ok(NamespaceBinding::Bare);
    }
    let found = NamespaceId::of(&file).path_context(&path, "read the identity of the namespace")?;
    Ok(if found == inode { NamespaceBinding::Here(file) } else { NamespaceBinding::Other })
}

/// Unmounts a namespace and removes its file, which undoes [`NetworkNamespace::bind`].
pub(crate) fn unbind(name: &str) -> Result<(), TestbedError> {
    let path = path(name);
    unmount(&path, UnmountFlags::DETACH).path_context(&path, "unmount the namespace")?;
    remove_bare(name)
}

/// Removes the file at which a namespace is bound.
pub(crate) fn remove_bare(name: &str) -> Result<(), TestbedError> {
    let path = path(name);
    std::fs::remove_file(&path).path_context(&path, "remove the namespace's file")
}
