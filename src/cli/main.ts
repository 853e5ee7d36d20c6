#!/usr/bin/env node
/**
 * The `tenure` command. Whatever happens ends here in an exit status and at most one line on stderr: no stack, no
 * unhandled rejection, no process that stays behind because something kept it alive.
 */
import { asksFor } from './arguments.ts'
import { runCommandLine } from './command-line.ts'
import { onFault } from '../runtime/diagnostics.ts'
import { isBrokenPipe, STDERR, write } from './terminal.ts'

const words = process.argv.slice(2)
const isDebugging =
  asksFor(words, '--debug') || !['', '0', 'false', undefined].includes(process.env['TENURE_DEBUG'])

/** The reader of stdout that had enough is no failure, and there is nobody left to tell anything. */
async function fail(error: unknown): Promise<number> {
  if (isBrokenPipe(error)) return 0
  const { reportError } = await import('./report-error.ts')
  return reportError(error, {
    json: asksFor(words, '--json'),
    debug: isDebugging,
    write: (text) => write(STDERR, text),
  })
}

if (isDebugging) {
  const { faultLine } = await import('./fault-line.ts')
  onFault((fault) => write(STDERR, `${faultLine(fault)}\n`))
}
process.on('uncaughtException', (error) => void fail(error).then((code) => process.exit(code)))
process.exit(await runCommandLine(words).catch(fail))
