/** What commands write: one JSON value, or text for people, on stdout; remarks for people on stderr. */
import { LeaseError, messageOf } from '../core/errors.ts'
import { painter, visible, type Paint } from './output.ts'
import { isBrokenPipe, isTty, STDERR, STDOUT, write } from './terminal.ts'

export class Printer {
  readonly json: boolean
  readonly paint: Paint

  constructor(options: { readonly json: boolean }) {
    this.json = options.json
    this.paint = painter(!options.json && isTty(STDOUT), process.env)
  }

  /** The answer of a command. Text is only made when a person reads it. */
  answer(value: unknown, text: () => string): void {
    this.line(this.json ? visible(JSON.stringify(value)) : text())
  }

  /**
   * The answer of a command that has changed something. What it has changed is said in one line where the answer cannot
   * be written; a reader of a pipe that had enough is no failure.
   */
  effect(effect: string, value: unknown, text: () => string): void {
    try {
      this.answer(value, text)
    } catch (cause) {
      if (isBrokenPipe(cause)) throw cause
      const message = `the answer could not be written (${messageOf(cause)}); ${effect}`
      throw new LeaseError('ABORTED', message, { cause, effect: 'unknown' })
    }
  }

  /**
   * An answer that is good or bad, and the exit status that says which. The status stands whether or not the reader of
   * a pipe had enough: a script that asks for the status alone may close the pipe.
   */
  verdict(ok: boolean, value: unknown, text: () => string): number {
    try {
      this.answer(value, text)
    } catch (error) {
      if (!isBrokenPipe(error)) throw error
    }
    return ok ? 0 : 1
  }

  line(text: string): void {
    write(STDOUT, `${text}\n`)
  }

  /** For people only, beside the answer. */
  remark(text: string): void {
    if (!this.json) write(STDERR, `${visible(text)}\n`)
  }
}
