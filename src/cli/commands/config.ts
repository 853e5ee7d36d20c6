/** `tenure config`: what all processes of the store obey from their next call on. */
import type { Tenure } from '../../client/contract.ts'
import { invalid } from '../../core/errors.ts'
import {
  parseSettingKey,
  parseSettingValue,
  SETTING_KEYS,
  SETTING_TABLE,
  type SettingKey,
  type SettingValue,
} from '../../core/settings.ts'
import { readWord, textOption } from '../arguments.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import { sendAgain } from '../lease-command.ts'
import { formatTable, visible } from '../output.ts'
import { readResourceArgument } from '../resource-argument.ts'
import { NO_PATIENCE, requireStore, withTenure } from '../store-access.ts'

const ACTIONS = ['get', 'set', 'unset', 'ls'] as const
type Action = (typeof ACTIONS)[number]

const options = {
  for: textOption(
    'KIND|RESOURCE',
    'the value for a kind (work) or a resource (work:W-17, ./app.ts)',
  ),
}

export const config: CliCommand = defineCommand({
  positionals: [
    { name: 'ACTION', help: 'get KEY, set KEY VALUE, unset KEY, or ls' },
    { name: 'KEY', help: SETTING_KEYS.join(', '), optional: true },
    { name: 'VALUE', help: 'a number, true or false, or a word', optional: true },
  ],
  options,
  notes: ['A value for a resource beats one for its kind, which beats the global one.'],
  examples: [
    'tenure config ls',
    'tenure config set default_ttl_seconds 600',
    'tenure config set max_renewals 5 --for work',
    'tenure config unset max_renewals --for work',
  ],
  run,
})

async function run(call: CliCall<typeof options>): Promise<number> {
  const [word, key, value, ...extra] = call.positionals
  const action = readWord('ACTION', ACTIONS, word)
  checkCount(action, [key, value, ...extra])
  const target =
    call.options.for === undefined ? {} : { for: readTarget(call.options.for, call.cwd) }
  if (action !== 'set') requireStore(call.identity)
  if (action === 'ls') {
    return withTenure(call.identity, NO_PATIENCE, (tenure) => list(call, tenure, target.for))
  }
  const setting = parseSettingKey(key)
  // What is refused must not have made a store.
  if (action === 'set') parseSettingValue(setting, value)
  return withTenure(call.identity, NO_PATIENCE, async (tenure) => {
    if (action === 'set') await sendAgain(() => tenure.config.set(setting, value ?? '', target))
    if (action === 'unset') await sendAgain(() => tenure.config.unset(setting, target))
    const now = await tenure.config.get(setting, target)
    const { printer } = call
    const answer = { key: setting, value: now }
    const effect = `${setting} is ${String(now)}`
    if (action === 'get') printer.answer(answer, () => String(now))
    else printer.effect(effect, answer, () => effect)
    return 0
  })
}

function checkCount(action: Action, given: readonly (string | undefined)[]): void {
  const names = action === 'ls' ? [] : action === 'set' ? ['KEY', 'VALUE'] : ['KEY']
  const words = given.filter((word) => word !== undefined)
  if (words.length === names.length) return
  const expected = names.length === 0 ? 'nothing' : names.join(' and ')
  throw invalid(`config ${action}`, `must be followed by ${expected}`, words.join(' '))
}

/**
 * A kind is a word in lower case; a resource has a colon, or a slash if it is a path. A bare word that is neither is
 * refused: `Work` hardly means a file of that name.
 */
function readTarget(text: string, cwd: string): string {
  if (/^[a-z][a-z0-9-]{0,31}$/.test(text)) return text
  if (/[:/]/.test(text)) return readResourceArgument(text, cwd)
  const expectation = 'must be a kind ([a-z][a-z0-9-]{0,31}), kind:name, or a path with a slash'
  throw invalid('for', expectation, text)
}

async function list(
  { printer }: CliCall<typeof options>,
  tenure: Tenure,
  target: string | undefined,
): Promise<number> {
  const overrides = await tenure.config.overrides()
  const entries = await Promise.all(
    SETTING_KEYS.map(async (key): Promise<readonly [SettingKey, SettingValue]> => {
      return [key, await tenure.config.get(key, target === undefined ? {} : { for: target })]
    }),
  )
  printer.answer({ settings: Object.fromEntries(entries), overrides }, () => {
    const rows = entries.map(([key, value]) => [
      { text: key, colour: 'bold' } as const,
      String(value),
      String(SETTING_TABLE[key].initial),
      SETTING_TABLE[key].description,
    ])
    const columns = ['KEY', 'VALUE', 'DEFAULT', 'MEANING']
    const table = formatTable(columns, rows, printer.paint)
    const narrower = overrides.filter(({ scope }) => scope !== 'global')
    const lines = narrower.map(({ key, value, resourceId }) => {
      return visible(`  ${key} is ${value} for ${resourceId ?? ''}`)
    })
    return lines.length === 0 ? table : [table, '', 'Overrides:', ...lines].join('\n')
  })
  return 0
}
