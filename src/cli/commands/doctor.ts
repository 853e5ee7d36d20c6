/**
 * `tenure doctor`: checks what Tenure needs, from Node to the store, and says what is wrong. Of a coding agent's client it calls
 * the configured hook as the client would, before an edit of a file that another holder has.
 */
import path from 'node:path'
import { openApi } from '../../open.ts'
import { fs, hasCode } from '../../runtime/file-system.ts'
import { readAddress } from '../../store-address.ts'
import {
  acceptClock,
  attempt,
  checkDirectory,
  checkDriver,
  checkNode,
  checkStore,
  type Check,
} from '../checkup.ts'
import { flag } from '../arguments.ts'
import { defineCommand, type CliCommand } from '../command.ts'
import type { Identity } from '../identity.ts'
import { sqliteFileOf } from '../ledger-source.ts'
import { projectDirectory, edited, readSettingsFile } from '../init/settings-file.ts'
import { visible, type Paint } from '../output.ts'
import { proveGit } from '../init/git-hooks.ts'
import { proveLfs } from '../init/lfs-settings.ts'
import { proveMcp } from '../init/mcp-settings.ts'
import { endedBySignals } from '../signals.ts'
import { optionsOf, useAndClose } from '../store-access.ts'
import { runProgram, type ProgramEnd } from '../../runtime/programs.ts'
import {
  CLIENT_SETTINGS,
  commandOf,
  isOwnHook,
  type ClientSettings,
} from '../init/client-settings.ts'
import { ownHooks } from '../init/hook-settings.ts'
import { TRIAL_LIMIT_MS, withHeldFile, type ProofFile } from '../init/held-file.ts'

export const doctor: CliCommand = defineCommand({
  positionals: [],
  options: {
    'accept-clock': flag(
      'go on by the clock of the server as it is now, although commits were made at a later time; until then commands fail, and leases that were granted meanwhile stay until their deadlines',
    ),
    convert: flag(
      'convert what an earlier version has left although leases are live there, whose holders then lose them',
    ),
  },
  notes: [
    'Looks at Node and the store: of a file also at the driver, the directory and every row, of PostgreSQL at the schema and what the role may write, of Redis at whether keys are evicted. It wakes itself up, because a connection may accept a subscription and deliver nothing, and prunes nothing, to see whether it could. What it writes to find out whether it can is rolled back or removed, and a file that does not exist yet, or is empty, is not made: it says where the store would be; a server is opened as by any command, which makes the schema or the namespace if there is none. One line for each thing that is wrong. The exit status is 0 if all is well and 1 if not.',
    'What tenure init has set up here it tries: the hook of each client before an edit of a file that another holds, the server of MCP with a request for it, the server of Git LFS with a question for the locks of this repository, and git with a commit and a push of it, in a temporary directory with a temporary store.',
  ],
  examples: [
    'tenure doctor',
    'tenure doctor --store sqlite:/srv/leases.db --json',
    'tenure doctor --store redis://cache:6379 --accept-clock',
  ],
  run: ({ identity, printer, options, cwd }) => {
    // Whatever hangs: at an exit what is being tried ends as well, and what was made for it goes.
    return endedBySignals(async () => {
      const wanted = new Set(REPAIRS.filter((what) => options[what]))
      const checks = [...(await examine(identity, wanted)), ...(await proveSetUp(cwd, identity))]
      const ok = checks.every((check) => check.ok)
      return printer.verdict(ok, { ok, checks }, () => describe(checks, printer.paint))
    })
  },
})

/** What `tenure init` has set up here. A directory that is closed to this user is named once, not by each of them. */
async function proveSetUp(cwd: string, identity: Identity): Promise<readonly Check[]> {
  const project = await projectDirectory(cwd)
  const opened = await attempt('clients', async () => {
    fs.accessSync(project, fs.constants.X_OK)
    return ''
  })
  if (!opened.ok) return [opened]
  return [
    ...(await proveClients(cwd)),
    ...(await proveMcp(cwd)),
    ...(await proveLfs(cwd, identity)),
    ...(await proveGit(cwd)),
  ]
}

const REPAIRS = ['convert', 'accept-clock'] as const
type Repairs = ReadonlySet<(typeof REPAIRS)[number]>

async function examine(identity: Identity, wanted: Repairs): Promise<readonly Check[]> {
  const file = sqliteFileOf(identity.url)
  const checks: Check[] = [checkNode(process.versions.node)]
  if (file !== null) checks.push(await checkDriver(), await checkDirectory(file))
  if (!checks.every((check) => check.ok)) return checks
  const { openCheckup, missingFile } = readAddress(identity.url, optionsOf(identity))
  const missing = missingFile?.() ?? null
  if (missing !== null) {
    const detail = `no store yet; tenure acquire and tenure run make ${missing}`
    return [...checks, { name: 'store', ok: true, detail }]
  }
  if (wanted.has('convert')) checks.push(await convert(identity))
  if (wanted.has('accept-clock')) checks.push(await acceptClock(openCheckup))
  checks.push(...(await examineStore(identity)))
  if (!isOpen(checks)) return checks
  checks.push(...(await checkStore(openCheckup)))
  return checks
}

/** Whatever else is wrong, a store that opens can be looked into. */
function isOpen(checks: readonly Check[]): boolean {
  return checks.some(({ name, ok }) => name === 'store' && ok)
}

/** Opening a store converts it. */
function convert(identity: Identity): Promise<Check> {
  return attempt('convert', async () => {
    const api = await openApi(identity.url, { ...optionsOf(identity), convert: 'force' })
    await api.close()
    return `${api.store.url} is in the layout of this version`
  })
}

async function examineStore(identity: Identity): Promise<readonly Check[]> {
  const further: Check[] = []
  const opened = await attempt('store', async () => {
    return useAndClose(await openApi(identity.url, optionsOf(identity)), async (api) => {
      const { clock, durability } = api.store
      further.push({ name: 'clock', ok: true, detail: clock })
      further.push({ name: 'durability', ok: true, detail: durability })
      // Other stores were asked when they were opened; a server is only now: is it there, and does it take the token?
      if (/^https?:/.test(identity.url)) await api.settingRows()
      return `${api.store.url} opens`
    })
  })
  return [opened, ...further]
}

function describe(checks: readonly Check[], paint: Paint): string {
  const width = Math.max(...checks.map(({ name }) => name.length))
  const lines = checks.map(({ name, ok, detail }) => {
    const mark = ok ? paint('ok   ', 'green') : paint('wrong', 'red')
    return `${mark}  ${name.padEnd(width)}  ${visible(detail)}`
  })
  return [...lines, '', verdict(checks)].join('\n')
}

function verdict(checks: readonly Check[]): string {
  const wrong = checks.filter(({ ok }) => !ok).length
  if (wrong > 0) return `${wrong} of ${checks.length} checks failed.`
  return isOpened(checks) ? 'All is well.' : 'Nothing is wrong, but there is no store yet.'
}

/** What is known of a store only once it was opened. */
function isOpened(checks: readonly Check[]): boolean {
  return checks.some(({ name }) => name === 'clock')
}

/** Nothing of a client whose settings do not call Tenure. */
async function proveClients(cwd: string): Promise<readonly Check[]> {
  const project = await projectDirectory(cwd)
  const checks: Check[] = []
  for (const [client, settings] of Object.entries(CLIENT_SETTINGS)) {
    const file = path.join(project, settings.file)
    const found = await attempt(client, async () => proveClient(client, settings, file))
    if (found.detail !== '') checks.push(found)
  }
  return checks
}

/** Empty where there is nothing to prove. */
async function proveClient(
  client: string,
  settings: ClientSettings,
  file: string,
): Promise<string> {
  const text = readSettingsFile(file)
  const hooks = text === null ? [] : edited(file, () => ownHooks(text, isOwnHook(client)))
  if (hooks.length === 0) return ''
  const { before } = settings
  const hook = hooks.find(({ event }) => event === before)?.hook
  if (hook === undefined) {
    throw new Error(`no hook of ${before} asks Tenure: tenure init ${client} --write`)
  }
  return withHeldFile(async (held) => {
    const ended = await callHook(hook, settings.trial(held.file, held.directory), held)
    if (isDenied(ended) && saidBy(ended).includes(held.holder)) {
      return `an edit of what another holds is denied (${path.basename(file)}, ${before})`
    }
    if (isDenied(ended)) throw new Error(`every edit is denied: ${saidBy(ended)}`)
    throw new Error(`an edit of what another holds goes through: ${failureOf(ended)}`)
  })
}

/** As words, where the client takes words; otherwise as a line of shell. */
async function callHook(
  hook: Readonly<Record<string, unknown>>,
  event: Readonly<Record<string, unknown>>,
  { directory: cwd, env }: ProofFile,
): Promise<ProgramEnd> {
  const words = commandOf(hook)
  const command = Array.isArray(hook['args']) ? words : ['/bin/sh', '-c', ...words]
  const options = { cwd, env, input: JSON.stringify(event), limitMs: TRIAL_LIMIT_MS }
  try {
    return await runProgram(command, options)
  } catch (error) {
    if (!hasCode(error, 'ENOENT', 'EACCES')) throw error
    throw new Error(`an edit of what another holds goes through: ${words[0]} cannot be run`, {
      cause: error,
    })
  }
}

/** The status by which a hook of any client denies without a word on stdout. */
const DENYING_EXIT_CODE = 2

function isDenied({ exitCode, stdout }: ProgramEnd): boolean {
  if (exitCode === DENYING_EXIT_CODE) return true
  return exitCode === 0 && decisionsIn(stdout.toString()).includes('deny')
}

/** Under the names that the clients have for it. */
function decisionsIn(text: string): readonly unknown[] {
  try {
    const answer = JSON.parse(text) as Readonly<Record<string, unknown>> | null
    const specific = answer?.['hookSpecificOutput'] as Readonly<Record<string, unknown>> | undefined
    return [
      ...[answer?.['permission'], answer?.['decision'], answer?.['permissionDecision']],
      specific?.['permissionDecision'],
    ]
  } catch (error) {
    // No fault: text that is no JSON decides nothing.
    if (error instanceof SyntaxError) return []
    throw error
  }
}

function saidBy({ stdout, stderr }: ProgramEnd): string {
  return `${stdout.toString()} ${stderr}`.trim()
}

function failureOf(ended: ProgramEnd): string {
  const said = saidBy(ended)
  return `the hook ended with ${ended.exitCode} and said ${said === '' ? 'nothing' : said}`
}
