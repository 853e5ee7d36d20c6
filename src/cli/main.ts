#!/usr/bin/env node
/**
 * The `tenure` command. Whatever happens ends here in an exit status and at most one line on stderr: no stack, no
 * unhandled rejection, no process that stays behind because something kept it alive.
 */

/**
 * Node opens its debugger at SIGUSR1 unless the process listens. Where no command listens, now or yet, it ends the process as
 * every other signal does. Everything else is loaded after this, so that there is no moment without it.
 */
const SIGUSR1_EXIT_CODE = 128 + 10
process.on('SIGUSR1', () => {
  if (process.listenerCount('SIGUSR1') === 1) process.exit(SIGUSR1_EXIT_CODE)
})

const { asksFor } = await import('./arguments.ts')
const { runCommandLine } = await import('./command-line.ts')
const { onFault } = await import('../runtime/diagnostics.ts')
const { isBrokenPipe, STDERR, write } = await import('./terminal.ts')

const words = process.argv.slice(2)
const isDebugging =
  asksFor(words, '--debug') || !['', '0', 'false', undefined].includes(process.env['TENURE_DEBUG'])

/** The reader of stdout that had enough is no failure, and there is no reader left to tell anything. */
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
  const { faultLine } = await import('./report-error.ts')
  onFault((fault) => write(STDERR, `${faultLine(fault)}\n`))
}
process.on('uncaughtException', (error) => void fail(error).then((code) => process.exit(code)))
process.exit(await runCommandLine(words).catch(fail))
