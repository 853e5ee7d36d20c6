/**
 * A session at the command line that uses every command that changes or shows leases, and its transcript without what
 * differs from run to run: ids, fences, times. On every store it must read the same.
 */
import { canonicalJson } from '../../src/core/canonical-json.ts'
import {
  hostedTenure,
  start,
  tenure,
  type Ended,
  type Running,
  type RunOptions,
} from './tenure-process.ts'

const FIRST = '00000000-0000-4000-8000-000000000001'
const NOBODYS = '00000000-0000-4000-8000-000000000009'

/** Some commands are under way while others start and end, on a machine that may be busy. */
const HANGS_AFTER_MS = 100_000

/** Commands in a row; each begins when the one before it has ended. */
const COMMANDS: readonly string[] = [
  `acquire work:A --holder ann --ttl 5m --reason first --lease-id ${FIRST}`,
  `acquire work:A --holder ann --ttl 5m --reason first --lease-id ${FIRST} --json`,
  'acquire work:A --holder bob',
  // Over before a waiter asks again, after 1.5 s: of a question that is under way nobody knows the effect.
  'acquire work:A --holder bob --wait 1400ms --json',
  'why work:A',
  'ls --json',
  `show ${FIRST}`,
  'renew work:A --holder ann --ttl 10m --json',
  'renew work:A --holder bob',
  'transfer work:A --holder ann --next',
  'transfer work:A --holder ann --to eve',
  'adopt work:A --holder eve --json',
  'downgrade work:A --holder eve',
  'acquire work:A --holder zoe --shared --json',
  'upgrade work:A --holder eve',
  'release work:A --holder zoe',
  'upgrade work:A --holder eve --json',
  'acquire file:/srv/tree/ --holder ann --ttl 5m --json',
  'acquire file:/srv/tree/a.ts --holder bob --json',
  'why file:/srv/tree/a.ts',
  'acquire work:X work:Y --holder ann --ttl 5m --json',
  'acquire work:slots --slots 1 --holder ann',
  'acquire work:slots --slots 1 --holder eve',
  'acquire work:slots --slots 3 --holder eve',
  'config set max_renewals 0 --for work:limited',
  'acquire work:limited --holder ann',
  'renew work:limited --holder ann',
  'config ls --json',
  'run work:B --holder ann -- sh -c "exit_3"',
  'revoke work:X --holder operator --reason maintenance',
  'release-all ann --holder operator',
  `release ${FIRST} --holder ann`,
  `renew ${NOBODYS} --holder ann`,
  'acquire work: --holder ann',
  'cleanup',
  'ls --all',
  'history',
  'history --json --type acquired,revoked',
]

export async function playSession(store: string): Promise<readonly string[]> {
  const transcript: string[] = []
  const note = (command: string, ended: Ended): void => {
    transcript.push(`$ tenure ${command}`, ...linesOf(ended, store))
  }
  const options = { env: { TENURE_STORE: store }, hangsAfterMs: HANGS_AFTER_MS }
  for (const command of COMMANDS) {
    const play = command.startsWith('run ') ? tenure : hostedTenure
    note(command, await play(argumentsOf(command), options))
  }
  await handOver(note, options)
  await watchAgain(note, options)
  return transcript
}

type Note = (command: string, ended: Ended) => void
type Options = Pick<RunOptions, 'env' | 'hangsAfterMs'>

/** Two that are under way at once: one waits for what the other holds, and gets it when it is revoked. */
async function handOver(note: Note, options: Options): Promise<void> {
  // A TTL so long that no machine is slow enough for a renewal, which would be an event on the one store and not the other.
  const running = start('run work:W --ttl 10m --holder ann -- sleep 60'.split(' '), options)
  await untilListed('active', running, options)
  const waiting = start('acquire work:W --holder bob --wait 50s --json'.split(' '), options)
  await untilListed('pending', waiting, options)
  note('why work:W', await tenure(['why', 'work:W'], options))
  note('revoke', await tenure('revoke work:W --holder operator'.split(' '), options))
  note('run', await running.ended)
  note('acquire', await waiting.ended)
}

async function untilListed(state: string, running: Running, options: Options): Promise<void> {
  for (;;) {
    const list = ['ls', 'work:W', '--state', state, '--json']
    const { code, stdout, stderr } = await hostedTenure(list, options)
    if (code !== 0) throw new Error(stderr)
    if (stdout.includes('work:W')) return
    if (running.process.exitCode !== null) throw new Error((await running.ended).stderr)
  }
}

/** Follows the ledger from its first event on, until all that has happened was shown. */
async function watchAgain(note: Note, options: Options): Promise<void> {
  const { stdout } = await tenure(['history', '--json', '--limit', '1000'], options)
  const events = JSON.parse(stdout) as readonly { readonly position: string }[]
  const [first, last] = [events.at(0)?.position ?? '', events.at(-1)?.position ?? '']
  const watch = start(['watch', '--json', '--after', first], options)
  await watch.says(`"position":${JSON.stringify(last)}`)
  watch.process.kill('SIGINT')
  note('watch', await watch.ended)
}

function argumentsOf(command: string): readonly string[] {
  return command.split(' ').map((word) => (word === '"exit_3"' ? 'exit 3' : word))
}

function linesOf({ code, stdout, stderr }: Ended, store: string): readonly string[] {
  const lines = [...stdout.split('\n'), ...stderr.split('\n')].filter((line) => line !== '')
  const shown = lines.flatMap((line) => maskedLines(line.replaceAll(store, '<store>')))
  return [...shown, `exit status ${code}`]
}

/** What no two runs have in common, by the names that JSON has for it. */
const MASKED =
  /^(.*AtMs|atMs|sinceMs|remainingMs|retryAfterMs|waitedMs|orderUs|session|position|us|domain)$/

function maskedLines(line: string): readonly string[] {
  if (!/^[{[]/.test(line)) return [maskedText(line)]
  const masked: unknown = JSON.parse(line, (name, value: unknown) => {
    return MASKED.test(name) && value !== null ? '<masked>' : value
  })
  const parts: readonly unknown[] = Array.isArray(masked) ? masked : [masked]
  return parts.map((part) => maskedText(canonicalJson(part)))
}

const SPAN = String.raw`\d+(\.\d+)?(ms|s|m|h)( \d+(ms|s))?`

function maskedText(text: string): string {
  return text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<id>')
    .replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}/g, '<time>')
    .replaceAll(/\b\d{16}\b/g, '<fence>')
    .replaceAll(new RegExp(String.raw`\bnow\b|(in|for) ${SPAN}|${SPAN} ago`, 'g'), '<when>')
    .replaceAll(/within \d+ ms/g, 'within <span>')
    .replaceAll(/ {2,}/g, '  ')
}
