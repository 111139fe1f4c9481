#!/usr/bin/env node
'use strict'

// `npx stillframe serve`: the program itself, with signals and the exit code of its process.
const { spawn } = require('node:child_process')
const { binary } = require('./index.js')

const child = spawn(binary(), process.argv.slice(2), { stdio: 'inherit' })
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('error', (error) => { console.error(error.message); process.exit(1) })
child.on('exit', (code, signal) => signal ? process.kill(process.pid, signal) : process.exit(code))
