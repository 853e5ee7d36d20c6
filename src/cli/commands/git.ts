/** `tenure git`: what git's hooks call, to refuse a commit or a push that touches what others hold. */
import { ERROR_TABLE, invalid, isLeaseError, LeaseError } from '../../core/errors.ts'
import { blockerOf } from '../../core/covering-leases.ts'
import { nameOf } from '../../core/resource.ts'
import {
  pushedPaths,
  readUpdates,
  stagedPaths,
  heldPaths,
  type HeldPath,
} from '../../git/held-paths.ts'
import { fs } from '../../runtime/file-system.ts'
import { defineCommand, type CliCommand } from '../command.ts'
import { expiryWords } from '../lease-text.ts'
import { cut, plural } from '../output.ts'
import { missingFileOf, withQuestions } from '../store-access.ts'
import { shellWord } from '../shell-word.ts'
import { isTty } from '../terminal.ts'

type Act = 'commit' | 'push'

const ACTS: Readonly<Record<string, Act>> = {
  'pre-commit': 'commit',
  'pre-push': 'push',
}

const STDIN = 0
const STORE_EXIT_CODE = ERROR_TABLE.STORE_UNAVAILABLE.exitCode
const NAMED_MAX = 20
const REASON_WIDTH_MAX = 200

export const gitCommand: CliCommand = defineCommand({
  positionals: [
    { name: 'HOOK', help: 'pre-commit or pre-push' },
    { name: 'ARGUMENT', help: 'what git tells the hook', optional: true, several: true },
  ],
  options: {},
  notes: [
    "For git's hooks, which tenure init git installs. pre-commit looks at the paths that are staged, pre-push at those that the pushed commits change (git says on stdin which); of a rename at both. A path that is under a live lease of another holder, or below a directory that is, ends the command with 10, and git with it. Whoever holds a path may commit and push it.",
    'Where no store was ever made nothing is held. A store that cannot be asked refuses.',
  ],
  examples: ['tenure git pre-commit', 'tenure git pre-push origin https://example.org/repo.git'],
  run: async ({ identity, positionals, printer, cwd }) => {
    const [hook = ''] = positionals
    const act = Object.hasOwn(ACTS, hook) ? ACTS[hook] : undefined
    if (act === undefined) throw invalid('HOOK', 'must be pre-commit or pre-push', hook)
    const paths = pathsOf(act, cwd)
    if (missingFileOf(identity) !== null) return 0
    const { holder } = identity
    const held = await withQuestions(identity, async (questions) =>
      heldPaths(questions, { holder, cwd, paths }),
    ).catch((error: unknown) => {
      throw unanswered(error, act)
    })
    const [first] = held
    if (first === undefined) return 0
    for (const one of held.slice(0, NAMED_MAX)) printer.remark(heldWords(one))
    if (held.length > NAMED_MAX) printer.remark(`and ${held.length - NAMED_MAX} more`)
    throw refusal(act, first, held)
  },
})

/** What git says on stdin is read in any case: git would complain of a hook that does not. */
function pathsOf(act: Act, cwd: string): () => Promise<readonly Buffer[]> {
  if (act === 'commit') return async () => stagedPaths({ cwd })
  if (isTty(STDIN)) throw invalid('stdin', 'must be what git gives a pre-push hook', 'a terminal')
  const updates = readUpdates(fs.readFileSync(STDIN, 'utf8'))
  return async () => pushedPaths(updates, { cwd })
}

function heldWords({ path, lease }: HeldPath): string {
  const tree = lease.extent === 'subtree' ? ` of ${nameOf(lease.resource)}/` : ''
  const reason = lease.reason === null ? '' : `: ${cut(lease.reason, REASON_WIDTH_MAX)}`
  return `${path} is held by ${lease.holder}, whose lease${tree} ends ${expiryWords(lease)}${reason}`
}

function refusal(act: Act, { place }: HeldPath, held: readonly HeldPath[]): LeaseError {
  const wait = `tenure wait ${shellWord(nameOf(place))}`
  const message = `this ${act} is refused, because others hold ${plural(held.length, 'path')} of it; work elsewhere, or wait (${wait})`
  const leases = new Map(held.map(({ lease }) => [lease.id, lease]))
  const details = {
    resource: place,
    paths: held.map(({ path, lease }) => ({ path, leaseId: lease.id })),
    blockers: [...leases.values()].map(blockerOf),
    retryAfterMs: Math.max(...held.map(({ lease }) => lease.remainingMs)),
  }
  return new LeaseError('RESOURCE_HELD', message, { details })
}

/** A store that is away cannot say that nobody holds anything. */
function unanswered(error: unknown, act: Act): unknown {
  const isAway = isLeaseError(error) && ERROR_TABLE[error.code].exitCode === STORE_EXIT_CODE
  if (!isAway) return error
  const message = `${error.message}; this ${act} is refused, because nobody can say what others hold (git ${act} --no-verify goes on without asking)`
  return new LeaseError(error.code, message, { details: error.details, cause: error })
}
