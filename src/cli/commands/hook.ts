/** `tenure hook`: what a coding agent's client calls before and after what its agent does. */
import { createHash } from 'node:crypto'
import path from 'node:path'
import { invalid } from '../../core/errors.ts'
import { answerHook, EVENT_BYTES_MAX } from '../../hooks/answer-hook.ts'
import { CLIENTS } from '../../hooks/hook-clients.ts'
import type { HookStore } from '../../hooks/hook-run.ts'
import { openApi, openQuestions } from '../../open.ts'
import { report } from '../../runtime/diagnostics.ts'
import { fs } from '../../runtime/file-system.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { readWord, textOption } from '../arguments.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import { stateDirectory } from '../default-store.ts'
import { fromEnv, storeFor, type Identity } from '../identity.ts'
import { missingFileOf, optionsOf, storeOptionsOf } from '../store-access.ts'
import { isTty, STDERR, STDOUT, write } from '../terminal.ts'

const options = {
  holder: textOption(
    'NAME',
    "in whose name (default: $TENURE_HOLDER, else the client's session and agent)",
  ),
}

export const hook: CliCommand = defineCommand({
  positionals: [{ name: 'CLIENT', help: CLIENTS.join(', ') }],
  options,
  notes: [
    'Reads one event of the client from stdin, asks the store that was named or else that of the repository that the file is in, and answers in the form of that client: a denial with its reason, something to tell the model, or nothing at all. It never gives a permission.',
    'Exit status 0: answered. 1: it could not check, and lets the call through. 2: it could not check, and the call is denied.',
  ],
  examples: ['tenure hook claude < event.json'],
  run,
})

async function run(call: CliCall<typeof options>): Promise<number> {
  const [name] = call.positionals
  const client = readWord('CLIENT', CLIENTS, name)
  const { env } = process
  const holder = call.options.holder ?? fromEnv(env, 'TENURE_HOLDER') ?? null
  const answer = await answerHook({
    client,
    input: standardInput(),
    holder,
    variables: env['HOME'] ? { HOME: env['HOME'] } : {},
    host: {
      runtime: systemRuntime,
      cwd: call.cwd,
      processId: process.ppid,
      memoryDirectory: path.join(stateDirectory(env), 'hooks'),
      projectDirectory: env['CLAUDE_PROJECT_DIR'] ?? env['GEMINI_PROJECT_DIR'] ?? null,
      storeOf: storesOf(call.identity),
    },
  })
  if (answer.stdout !== '') write(STDOUT, answer.stdout)
  if (answer.stderr !== '') write(STDERR, answer.stderr)
  if (answer.begun !== null && holder === null) nameHolder(answer.begun, env['CLAUDE_ENV_FILE'])
  return answer.exitCode
}

/** The store that was named, or that of the repository which a file is in. */
function storesOf(identity: Identity): (directory: string) => HookStore {
  const known = new Map<string, HookStore>()
  return (directory) => {
    const found = known.get(directory)
    if (found !== undefined) return found
    const url = storeFor(identity, directory, process.env)
    const place = { ...identity, url }
    const { namespace } = identity
    const store: HookStore = {
      key: createHash('sha256')
        .update(`${url} ${namespace ?? ''}`)
        .digest('hex')
        .slice(0, 16),
      get isMade() {
        return missingFileOf(place) === null
      },
      open: () => openApi(url, optionsOf(place)),
      look: () => openQuestions(url, storeOptionsOf(place)),
    }
    known.set(directory, store)
    return store
  }
}

/** All of it, up to one byte more than an event may have. */
async function standardInput(): Promise<Uint8Array> {
  if (isTty(STDIN)) throw invalid('event', 'must be given on standard input', 'a terminal')
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of process.stdin as AsyncIterable<Uint8Array>) {
    chunks.push(chunk)
    length += chunk.length
    if (length > EVENT_BYTES_MAX) break
  }
  return Buffer.concat(chunks)
}

const STDIN = 0

/** The shell of the session gets its holder's name, so that `tenure` and the guards of git know whose it is. */
function nameHolder(holder: string, file: string | undefined): void {
  if (file === undefined || file === '') return
  try {
    fs.appendFileSync(file, `export TENURE_HOLDER='${holder}'\n`)
  } catch (error) {
    report('cli/hook-environment', error)
  }
}
