/** What a lease may be used for, and how much of it, in words and as people write it. */
import { DIMENSIONS, parseBudget, type Budget } from '../core/budget.ts'
import { invalid } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { parseScope, type Scope } from '../core/scope.ts'
import type { Option } from './arguments.ts'

type Told = Pick<LeaseInfo, 'delegation' | 'parentId' | 'depth' | 'scope' | 'budget' | 'budgetLeft'>

/** The facts of a lease that was derived, limited, or derived from; none of any other. */
export function delegationFacts(lease: Told): readonly (readonly [string, string])[] {
  const { parentId = null, depth = 0, scope, budget = {}, budgetLeft = {}, delegation } = lease
  if (scope === undefined || delegation === undefined) return []
  const { children } = delegation
  return [
    ...(parentId === null ? [] : [['parent', `${parentId} (depth ${depth})`] as const]),
    ...(scope.unlimited ? [] : [['scope', scopeWords(scope)] as const]),
    ...(Object.keys(budget).length === 0
      ? []
      : [['budget', budgetWords(budget, budgetLeft)] as const]),
    ...(children.length === 0 ? [] : [['children', `${children.length} live`] as const]),
  ]
}

function scopeWords({ workIds, tools, namespaces }: Scope): string {
  const sets = Object.entries({ workIds, tools, namespaces }).filter(([, set]) => set.length > 0)
  if (sets.length === 0) return 'nothing'
  return sets.map(([name, set]) => `${name} ${set.join(', ')}`).join('; ')
}

/** `8800 of 10000 tokens left`. */
export function budgetWords(budget: Budget, left: Budget): string {
  const limited = DIMENSIONS.filter((dimension) => budget[dimension] !== undefined)
  const amounts = limited.map((dimension) => {
    return `${left[dimension] ?? 0} of ${budget[dimension]} ${dimension}`
  })
  return `${amounts.join(', ')} left`
}

export const SCOPE_OPTION: Option<Scope> = {
  placeholder: 'SCOPE',
  help: "what it may be used for: 'tools=edit,read namespaces=src workIds=W-1', unlimited, or JSON",
  read: (text) => parseScope(readFields('scope', text, readSet)),
}

export const BUDGET_OPTION: Option<Budget> = {
  placeholder: 'BUDGET',
  help: "how much of it: 'tokens=5000 toolCalls=20 episodes=1 durationMs=60000', or JSON",
  read: (text) => parseBudget('budget', readFields('budget', text, readAmount)),
}

/** `tokens=1200`, one amount in each word. */
export function readAmounts(words: readonly string[]): Budget {
  return parseBudget('amounts', readFields('amounts', words.join(' '), readAmount))
}

type ReadField = (field: string, text: string) => unknown

/** Names and values as the library has them: `name=value` between spaces, or JSON for values with spaces or commas. */
function readFields(field: string, text: string, read: ReadField): unknown {
  if (text.startsWith('{')) return readJson(field, text)
  if (field === 'scope' && text === 'unlimited') return { unlimited: true }
  const fields = new Map<string, unknown>()
  for (const word of text.split(/\s+/).filter((part) => part !== '')) {
    const equals = word.indexOf('=')
    if (equals < 1) throw invalid(field, 'must be of NAME=VALUE', word)
    const name = word.slice(0, equals)
    if (fields.has(name)) throw invalid(field, `must have ${name} once`, text)
    fields.set(name, read(`${field}.${name}`, word.slice(equals + 1)))
  }
  if (fields.size === 0) throw invalid(field, 'must be of NAME=VALUE', text)
  return Object.fromEntries(fields)
}

function readSet(_field: string, text: string): readonly string[] {
  return text.split(',')
}

function readAmount(field: string, text: string): number {
  if (/^\d{1,16}$/.test(text)) return Number(text)
  throw invalid(field, 'must be an integer 0..2^53-1', text)
}

function readJson(field: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) throw invalid(field, 'must be JSON', text)
    throw error
  }
}
