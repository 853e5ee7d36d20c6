/**
 * Writing to stdout and stderr. Synchronous and without Node's streams: what was written is out when the process
 * exits, a broken pipe is an error where it happens, and a command that prints a line need not load the network.
 */
import { report } from '../runtime/diagnostics.ts'
import { fs, hasCode } from '../runtime/file-system.ts'

export const STDOUT = 1
export const STDERR = 2

const FULL_PIPE_PAUSE_MS = 2

/** A failure to write to stderr is swallowed: there is no reader to tell, and the exit status must not depend on it. */
export function write(fd: typeof STDOUT | typeof STDERR, text: string): void {
  const bytes = Buffer.from(text)
  for (let offset = 0; offset < bytes.length;) {
    try {
      offset += fs.writeSync(fd, bytes, offset)
    } catch (error) {
      // Another process made the pipe non-blocking, and its reader is slow.
      if (!hasCode(error, 'EAGAIN')) {
        if (fd === STDERR) return
        throw error
      }
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_PIPE_PAUSE_MS)
    }
  }
}

/** Whether the reader of a pipe (`tenure ls | head`) had enough. */
export function isBrokenPipe(error: unknown): boolean {
  return hasCode(error, 'EPIPE')
}

/** Asks the operating system about the kind of file first, because loading `node:tty` costs as much as a query. */
export function isTty(fd: number): boolean {
  try {
    if (!fs.fstatSync(fd).isCharacterDevice()) return false
  } catch (error) {
    // The process that started this command may have closed it.
    if (!hasCode(error, 'EBADF')) report('cli/terminal', error)
    return false
  }
  return process.getBuiltinModule('node:tty').isatty(fd)
}
