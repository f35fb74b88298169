// Runs M-Lab's own client, which expects a browser, in Node: node client.js FOLDER HOST:PORT
// FOLDER/node_modules must have @m-lab/ndt7 and ws.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');
const {createRequire} = require('module');

const [folder, server] = process.argv.slice(2);
const load = createRequire(path.join(path.resolve(folder), 'index.js'));
const WebSocket = load('ws');
const ndt7 = load('@m-lab/ndt7');

// The client takes its first measurement after 250 ms of its clock. A fast machine has then transferred all data of the
// test. The clock of the workers therefore runs ten times as fast as the clock of the machine.
const performance = {now: () => 10 * globalThis.performance.now()};

// A worker that runs in a context of this thread.
globalThis.Worker = class {
  constructor(file) {
    const sockets = [];
    const scope = {
      WebSocket: class extends WebSocket {
        constructor(...all) {
          super(...all);
          sockets.push(this);
        }
      },
      postMessage: (data) => setImmediate(() => this.onmessage({data})),
      performance, setTimeout, Date, Uint8Array,
    };
    scope.self = scope;
    vm.runInContext(fs.readFileSync(file, 'utf8'), vm.createContext(scope));
    this.postMessage = (data) => scope.onmessage({data});
    this.terminate = () => sockets.forEach((socket) => socket.terminate());
  }
};

const files = path.dirname(load.resolve('@m-lab/ndt7'));
const told = {errors: []};
const config = {
  server, protocol: 'ws', mlabDataPolicyInapplicable: true,
  metadata: {client_name: 'netrig tests', early_exit: '250'},
  downloadworkerfile: path.join(files, 'ndt7-download-worker.js'),
  uploadworkerfile: path.join(files, 'ndt7-upload-worker.js'),
};
ndt7.test(config, {
  error: (error) => told.errors.push(String(error)),
  downloadComplete: (data) => told.download = data,
  uploadComplete: (data) => told.upload = data,
}).then((code) => {
  console.log(JSON.stringify(told));
  process.exit(code);
});
