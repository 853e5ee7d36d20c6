/** `tenure keys`: the keys that sign grants and checkpoints. */
import path from 'node:path'
import { invalid, isLeaseError } from '../../core/errors.ts'
import { readKeyFile, readText, writeKeyFile } from '../../delegation/key-file.ts'
import { isFileAbsent } from '../../delegation/ledger-files.ts'
import { checkpointHash } from '../../ledger/ledger-checkpoint.ts'
import { generateSigningKey } from '../../registrar/ed25519.ts'
import {
  formatKeyRing,
  importKeys,
  isSigning,
  type KeptKey,
  type KeyRing,
  parseKeyRing,
  ringOfSuccession,
  rotateKeys,
  signingKeyOf,
  withFirstKey,
} from '../../registrar/key-ring.ts'
import { keySuccession } from '../../registrar/verification-key.ts'
import { fs } from '../../runtime/file-system.ts'
import { directoryOption, durationOption, readWord } from '../arguments.ts'
import { type CliCall, type CliCommand, defineCommand } from '../command.ts'
import { KEYS_OPTION, keyFileOf, withKeyFile } from '../secret-files.ts'
import { formatTable, visible } from '../output.ts'
import { examineLedger } from '../sealed-directory.ts'
import { waitForTurn } from '../../delegation/turn.ts'

const ACTIONS = ['generate', 'ls', 'rotate', 'export', 'import'] as const
type Action = (typeof ACTIONS)[number]
type Change = Exclude<Action, 'ls' | 'export'>
const DAY_MS = 86_400_000
const OVERLAP_MS_DEFAULT = 30 * DAY_MS

const options = {
  keys: KEYS_OPTION,
  overlap: durationOption(
    { field: 'overlap', minMs: 0, maxMs: 3_650 * DAY_MS },
    'of rotate: how long the old key still verifies (default: 720h)',
  ),
  ledger: directoryOption('ledger', 'of rotate: a ledger that was sealed with a copy of this file'),
}

type KeysTable = typeof options

export const keys: CliCommand = defineCommand({
  positionals: [
    { name: 'ACTION', help: 'generate, ls, rotate, export, or import FILE' },
    { name: 'FILE', help: 'of import: what export has written elsewhere', optional: true },
  ],
  options,
  notes: [
    'The file is readable by its owner only, and holds the part that signs. export prints the public part, which is all that somebody needs who verifies; a file with nothing else may be read by anybody.',
    'A rotation is signed by the old key and by the new one, and names the last checkpoints of the ledgers that were sealed with this file: whatever else the old key seals is refused by whoever knows the rotation. import takes in keys to verify with: none of them ever signs here, and none lasts longer than is known.',
  ],
  examples: [
    'tenure keys generate',
    'tenure keys rotate --overlap 24h',
    'tenure keys export > registrar.keys.json',
  ],
  run,
})

async function run(call: CliCall<KeysTable>): Promise<number> {
  const [word, file] = call.positionals
  const action = readWord('ACTION', ACTIONS, word)
  if ((action === 'import') !== (file !== undefined)) {
    const expectation = action === 'import' ? 'FILE' : 'nothing'
    throw invalid(`keys ${action}`, `must be followed by ${expectation}`, file)
  }
  if (action !== 'rotate' && call.options.ledger !== undefined) {
    throw invalid('ledger', `must not be given to keys ${action}`, call.options.ledger)
  }
  const keyFile = keyFileOf(call.options.keys, call.cwd)
  const isLook = action === 'ls' || action === 'export'
  const changed = isLook
    ? { ring: readKeyFile(keyFile), unproven: [] }
    : await withKeyFile(keyFile, (ring) => change(call, action, { ring, keyFile }))
  show(call, action, { ...changed, keyFile })
  return 0
}

type Changed = Pick<Shown, 'ring' | 'unproven'>

async function change(
  call: CliCall<KeysTable>,
  action: Change,
  { ring, keyFile }: Pick<Shown, 'ring' | 'keyFile'>,
): Promise<Changed> {
  const write = (changed: KeyRing, unproven: Changed['unproven'] = []): Changed => {
    writeKeyFile(keyFile, changed)
    return { ring: changed, unproven }
  }
  const { options, positionals, cwd } = call
  const nowMs = Date.now()
  switch (action) {
    case 'generate':
      return write(withFirstKey(ring, generateSigningKey(), nowMs))
    case 'rotate': {
      const overlapMs = options.overlap ?? OVERLAP_MS_DEFAULT
      const named = options.ledger === undefined ? [] : [placeOf(path.resolve(cwd, options.ledger))]
      const ledgers = [...new Set([...(ring.ledgers ?? []), ...named])]
      return withLastCheckpoints(ring, ledgers, ({ hashes: lastCheckpoints, unproven }) => {
        const next = generateSigningKey()
        return write(rotateKeys(ring, { next, nowMs, overlapMs, lastCheckpoints }), unproven)
      })
    }
    case 'import':
      return write(
        importKeys(ring, parseKeyRing(readText(path.resolve(cwd, positionals[1] ?? '')))),
      )
  }
}

interface Shown {
  readonly ring: KeyRing
  readonly keyFile: string
  readonly unproven: LastCheckpoints['unproven']
}

function show(
  { printer }: CliCall<KeysTable>,
  action: Action,
  { ring, keyFile, unproven }: Shown,
): void {
  const shown = ring.keys.map(shownKey)
  const active = ring.keys.find(isSigning)
  if (action === 'export') {
    // The keys of other registrars are theirs to hand out.
    const own = active === undefined ? ring : ringOfSuccession(ring, active.keyId)
    const text = formatKeyRing(own, { secrets: false })
    return printer.answer(JSON.parse(text), () => text.trimEnd())
  }
  for (const { ledger, problem } of unproven) {
    const lost = 'who knows this rotation will not believe it'
    printer.remark(`the ledger in ${ledger} is not vouched for, ${lost}: ${problem}`)
  }
  const rotations = ring.rotations.length
  const answer = { file: keyFile, keys: shown, rotations, ...(action === 'rotate' && { unproven }) }
  const isMade = action === 'generate' || action === 'rotate'
  const effect = isMade
    ? `${active?.keyId ?? ''} signs from now on (${keyFile})`
    : `the keys are in ${keyFile}`
  const text = (): string => {
    if (isMade) return visible(effect)
    if (shown.length === 0) return visible(`no keys in ${keyFile}`)
    const columns = ['KEY', 'STATE', 'SIGNS', 'CREATED', 'RETIRES']
    const rows = shown.map((key) => [
      key.keyId,
      key.state,
      key.signs ? 'yes' : 'no',
      timeText(key.createdAtMs),
      timeText(key.retiresAtMs),
    ])
    return formatTable(columns, rows, printer.paint)
  }
  if (action === 'ls') printer.answer(answer, text)
  else printer.effect(effect, answer, text)
}

function shownKey(key: KeptKey) {
  const { keyId, state, createdAtMs, retiresAtMs } = key
  const isOver = retiresAtMs !== null && Date.now() >= retiresAtMs
  return {
    keyId,
    state: isOver ? 'retired' : state,
    createdAtMs,
    retiresAtMs,
    signs: isSigning(key),
  }
}

function timeText(ms: number | null): string {
  return ms === null ? '' : new Date(ms).toISOString()
}

interface LastCheckpoints {
  readonly hashes: readonly string[]
  /** Ledgers that the rotation cannot vouch for, and why. A rotation is made all the same: a key may have been stolen. */
  readonly unproven: readonly { readonly ledger: string; readonly problem: string }[]
}

/**
 * The last checkpoints of the ledgers that a key has sealed, which its rotation names. Each ledger is examined before the
 * rotation vouches for it, and no sealer has its turn until the rotation is made.
 */
async function withLastCheckpoints<Result>(
  ring: KeyRing,
  directories: readonly string[],
  use: (last: LastCheckpoints) => Result,
): Promise<Result> {
  const keys = keySuccession(ring.keys, signingKeyOf(ring).keyId)
  const hashes: string[] = []
  const unproven: { readonly ledger: string; readonly problem: string }[] = []
  const ends: (() => void)[] = []
  try {
    for (const ledger of directories) {
      if (isFileAbsent(ledger)) {
        unproven.push({ ledger, problem: 'it is not there' })
        continue
      }
      ends.push(await waitForTurn({ directory: ledger, name: 'sealing', act: 'seal' }))
      const found = lastOf(ledger, keys)
      if ('problem' in found) unproven.push({ ledger, ...found })
      else if (found.hash !== null) hashes.push(found.hash)
    }
    return use({ hashes, unproven })
  } finally {
    for (const end of ends) end()
  }
}

/** As `seal` notes it, whatever symbolic links lead there. */
function placeOf(directory: string): string {
  return isFileAbsent(directory) ? directory : fs.realpathSync(directory)
}

type LastOf = { readonly hash: string | null } | { readonly problem: string }

function lastOf(directory: string, keys: Parameters<typeof examineLedger>[1]): LastOf {
  try {
    const { verdict, checkpoints } = examineLedger(directory, keys)
    if (verdict.first !== null) {
      return { problem: `got line ${verdict.first.line} that ${verdict.first.problem}` }
    }
    const last = checkpoints.at(-1)
    return { hash: last === undefined ? null : checkpointHash(last) }
  } catch (error) {
    if (isLeaseError(error)) return { problem: error.message }
    throw error
  }
}
