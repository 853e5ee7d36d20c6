/**
 * Whether the client of a coding agent would really be stopped: its configured hook is called as the client would call it, before
 * an edit of a file that another holder has.
 */
import path from 'node:path'
import { hasCode } from '../../runtime/file-system.ts'
import { runProgram, type ProgramEnd } from '../../runtime/programs.ts'
import { attempt, type Check } from '../checkup.ts'
import { CLIENT_SETTINGS, commandOf, isOwnHook, type ClientSettings } from './client-settings.ts'
import { ownHooks } from './hook-settings.ts'
import { edited, projectDirectory, readSettingsFile } from './settings-file.ts'
import { TRIAL_LIMIT_MS, withHeldFile, type ProofFile } from './held-file.ts'

/** Nothing of a client whose settings do not call Tenure. */
export async function proveClients(cwd: string): Promise<readonly Check[]> {
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
