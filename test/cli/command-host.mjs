/**
 * Runs command lines of the built `tenure` one after the other in one process, so that a test need not start Node for
 * each step that only prepares or looks. A command has the directory, environment and output of its own; only its
 * process is not. What a test is about runs as a process (`tenure-process.ts`).
 */
import fs from 'node:fs'
import process from 'node:process'
import { asksFor } from '../../dist/cli/arguments.js'
import { runCommandLine } from '../../dist/cli/command-line.js'
import { reportError } from '../../dist/cli/report-error.js'

/** @typedef {{ cwd: string, env: NodeJS.ProcessEnv, words: readonly string[] }} Asked */
/** @typedef {{ code: number, stdout: string, stderr: string }} Answered */

/** What a command wrote to stdout and stderr; it writes to nothing but file descriptors. */
const written = { 1: '', 2: '' }
const { writeSync } = fs

Object.assign(fs, {
  writeSync: (
    /** @type {number} */ fd,
    /** @type {Buffer} */ bytes,
    /** @type {number} */ from,
  ) => {
    if (fd !== 1 && fd !== 2) return writeSync(fd, bytes, from)
    written[fd] += bytes.toString('utf8', from)
    return bytes.length - from
  },
})

/**
 * As `main.ts` does.
 *
 * @param {Asked} asked
 * @returns {Promise<Answered>}
 */
async function run({ cwd, env, words }) {
  process.chdir(cwd)
  process.env = env
  written[1] = written[2] = ''
  const code = await runCommandLine(words).catch((error) => {
    return reportError(error, {
      json: asksFor(words, '--json'),
      debug: asksFor(words, '--debug'),
      write: (text) => void (written[2] += text),
    })
  })
  return { code, stdout: written[1], stderr: written[2] }
}

process.on('message', (/** @type {Asked} */ asked) => {
  void run(asked).then((answered) => process.send?.(answered))
})
