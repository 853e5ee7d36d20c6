/**
 * A checker for Stryker that lets a random third of the mutants pass. It has no better way to choose among them: the ranges
 * that it can be given take every mutant inside, so that a third of the lines would never have one of several lines.
 */
import { createHash } from 'node:crypto'

/** `thirdOf` has the seed in it: the same mutants with the same seed, as long as the file is the same. */
export function isInThird(thirdOf: string, mutantId: string): boolean {
  return createHash('sha256').update(`${thirdOf} ${mutantId}`).digest().readUInt32BE() % 3 === 0
}

interface CheckResult {
  readonly status: 'passed' | 'compileError'
  readonly reason?: string
}

class RandomThird {
  /** What Stryker shall give the constructor. */
  static readonly inject = ['options'] as const
  readonly #thirdOf: string

  constructor({ thirdOf }: { readonly thirdOf: string }) {
    this.#thirdOf = thirdOf
  }

  async init(): Promise<void> {}

  /** “Does not compile” is the one answer by which a mutant is left out. */
  async check(
    mutants: readonly { readonly id: string }[],
  ): Promise<Readonly<Record<string, CheckResult>>> {
    const left: CheckResult = { status: 'compileError', reason: 'not in the random third' }
    return Object.fromEntries(
      mutants.map(({ id }) => [id, isInThird(this.#thirdOf, id) ? { status: 'passed' } : left]),
    )
  }

  /** All at once. */
  group(mutants: readonly { readonly id: string }[]): readonly (readonly string[])[] {
    return [mutants.map(({ id }) => id)]
  }
}

export const strykerPlugins = [
  { kind: 'Checker', name: 'random-third', injectableClass: RandomThird },
]
