/** `tenure tokens`: who may use a server, and for what. */
import { invalid } from '../../core/errors.ts'
import { PRIORITY_MAX, PRIORITY_MIN, TTL_MS_MAX, TTL_MS_MIN } from '../../core/limits.ts'
import type { Token } from '../../server/token.ts'
import { createToken, readTokenFile, revokeToken } from '../../server/token-file.ts'
import { parseRole } from '../../server/wire/token-records.ts'
import {
  durationOption,
  flag,
  integerOption,
  readWord,
  textOption,
  type Option,
} from '../arguments.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import { formatSpan } from '../duration.ts'
import { formatTable, plural, visible } from '../output.ts'
import { given } from '../store-access.ts'
import { tokenFileOf, TOKENS_OPTION, withTurnOf } from '../secret-files.ts'

const ACTIONS = ['create', 'ls', 'revoke'] as const
type Action = (typeof ACTIONS)[number]

const COUNT_MAX = 10_000_000
/** Names may have commas; what follows one is another only if it begins as one does. */
function several(placeholder: string, help: string, separator: RegExp): Option<readonly string[]> {
  return { placeholder, help, read: (text) => text.split(separator) }
}

const options = {
  tokens: TOKENS_OPTION,
  name: textOption('NAME', 'of create: what the token is called, in logs and in the history'),
  role: {
    placeholder: 'ROLE',
    help: 'of create: reader sees; holder also acts on what its own holders hold; operator may everything (default: holder)',
    read: parseRole,
  },
  as: several(
    'PATTERN,…',
    'of create: the holders that it may act as, * for any characters (default: its own name)',
    /,/,
  ),
  resource: several(
    'RESOURCE,…',
    'of create: what it may see and lease, with all that is below: work: or file:/repo (default: everything)',
    /,(?=[a-z][a-z0-9-]{0,31}:)/,
  ),
  'any-namespace': flag('of create: it may use every namespace, not only that of --namespace'),
  'max-leases': integerOption(
    { field: 'max-leases', min: 1, max: COUNT_MAX },
    'of create: leases and waiting requests at once, of all its holders',
  ),
  'max-priority': integerOption(
    { field: 'max-priority', min: PRIORITY_MIN, max: PRIORITY_MAX },
    'of create: the highest priority that it may ask for',
  ),
  'max-ttl': durationOption(
    { field: 'max-ttl', minMs: TTL_MS_MIN, maxMs: TTL_MS_MAX },
    'of create: the longest TTL, and the longest lock delay, that it may ask for',
  ),
  'max-requests': integerOption(
    { field: 'max-requests', min: 1, max: COUNT_MAX },
    'of create: requests per second; renewals and releases are never refused (default: 5000)',
  ),
}

type TokensTable = typeof options

export const tokens: CliCommand = defineCommand({
  positionals: [
    { name: 'ACTION', help: 'create, ls, or revoke NAME' },
    { name: 'NAME', help: 'of revoke: the name of the token', optional: true },
  ],
  options,
  notes: [
    'A token is shown once, when it is created. The file, readable by its owner only, keeps a hash of it; a running server reads the file again when it changes.',
  ],
  examples: [
    "tenure tokens create --name ci --as 'ci-*' --resource work: --max-leases 500 --max-ttl 1h",
    'tenure tokens ls',
    'tenure tokens revoke ci',
  ],
  run,
})

async function run(call: CliCall<TokensTable>): Promise<number> {
  const { positionals, options, cwd } = call
  const [word, name] = positionals
  const action = readWord('ACTION', ACTIONS, word)
  if ((action === 'revoke') !== (name !== undefined)) {
    const expectation = action === 'revoke' ? 'NAME' : 'nothing'
    throw invalid(`tokens ${action}`, `must be followed by ${expectation}`, name)
  }
  refuseForeignOptions(call, action)
  const file = tokenFileOf(options.tokens, cwd)
  if (action === 'create') await create(call, file)
  else if (action === 'ls') list(call, file)
  else await revoke(call, file, name ?? '')
  return 0
}

/** All but the file are options of `create`. */
function refuseForeignOptions(call: CliCall<TokensTable>, action: Action): void {
  if (action === 'create') return
  const named = new Set(Object.keys(call.options))
  for (const name of Object.keys(options).filter((option) => option !== 'tokens')) {
    if (named.has(name)) throw invalid(name, `must not be given to tokens ${action}`, name)
  }
}

async function create(
  { options, identity, printer }: CliCall<TokensTable>,
  file: string,
): Promise<void> {
  const { name } = options
  if (name === undefined) throw invalid('name', 'must be given', name)
  const namespace = options['any-namespace'] === true ? '*' : (identity.namespace ?? 'default')
  const request = given({
    as: options.as,
    resources: options.resource,
    maxLeases: options['max-leases'],
    maxPriority: options['max-priority'],
    maxTtlMs: options['max-ttl'],
    maxRequests: options['max-requests'],
  })
  const wanted = { ...request, name, role: options.role ?? 'holder', namespace }
  const { token, secret } = await withTurnOf(file, () => {
    return createToken(file, wanted, Date.now())
  })
  const effect = `the token ${token.name} is in ${file}`
  printer.effect(effect, { ...shown(token), token: secret, file }, () => secret)
  printer.remark(`${effect}; it is shown this once`)
}

/** Without its hash, which is of no use to a reader. */
function shown({ hash: _hash, ...token }: Token): Omit<Token, 'hash'> {
  return token
}

function list({ printer }: CliCall<TokensTable>, file: string): void {
  const known = readTokenFile(file)
  printer.answer({ file, tokens: known.map(shown) }, () => {
    if (known.length === 0) return visible(`no tokens in ${file}`)
    const columns = ['NAME', 'ROLE', 'AS', 'NAMESPACE', 'RESOURCES', 'LIMITS', 'CREATED']
    const rows = known.map((token) => [
      ...[token.name, token.role, token.as.join(','), token.namespace],
      ...[token.resources.join(',') || 'all', limitWords(token)],
      new Date(token.createdAtMs).toISOString(),
    ])
    return formatTable(columns, rows, printer.paint)
  })
}

/** `500 leases, priority 0, ttl 1h, 100 requests/s`, each at most; `-` for none. */
function limitWords({ maxLeases, maxPriority, maxTtlMs, maxRequests }: Token): string {
  const words = [
    maxLeases === null ? null : plural(maxLeases, 'lease'),
    maxPriority === null ? null : `priority ${maxPriority}`,
    maxTtlMs === null ? null : `ttl ${formatSpan(maxTtlMs)}`,
    maxRequests === null ? null : `${plural(maxRequests, 'request')}/s`,
  ].filter((word) => word !== null)
  return words.length === 0 ? '-' : words.join(', ')
}

async function revoke(
  { printer }: CliCall<TokensTable>,
  file: string,
  name: string,
): Promise<void> {
  const token = await withTurnOf(file, () => revokeToken(file, name))
  const effect = `the token ${token.name} is no longer valid`
  printer.effect(effect, shown(token), () => visible(effect))
}
