/**
 * A network namespace for the workers, joined to this one by a pair of virtual interfaces, so that packets can be lost in
 * one direction alone: they are sent to an address that no interface has. Needs root; it goes with `close`.
 */
import { execFileSync } from 'node:child_process'

export type Direction = 'requests' | 'replies'

const NOWHERE = '02:00:00:00:00:99'

export class Link {
  readonly #name = `tenure-${process.pid}`
  readonly #outside = `tn${process.pid % 100_000}a`
  readonly #inside = `tn${process.pid % 100_000}b`
  readonly #net = `10.231.${process.pid % 250}`

  constructor() {
    this.#ip('netns', 'add', this.#name)
    this.#ip(
      'link',
      'add',
      this.#outside,
      'type',
      'veth',
      'peer',
      this.#inside,
      'netns',
      this.#name,
    )
    this.#ip('addr', 'add', `${this.address}/30`, 'dev', this.#outside)
    this.#ip('link', 'set', this.#outside, 'up')
    this.#ip('-n', this.#name, 'addr', 'add', `${this.#net}.2/30`, 'dev', this.#inside)
    this.#ip('-n', this.#name, 'link', 'set', this.#inside, 'up')
    this.#ip('-n', this.#name, 'link', 'set', 'lo', 'up')
  }

  /** Of this side, as the workers see it. */
  get address(): string {
    return `${this.#net}.1`
  }

  /** What a worker's command begins with. */
  get wrapper(): readonly string[] {
    return ['ip', 'netns', 'exec', this.#name]
  }

  lose(direction: Direction): void {
    const nowhere = ['lladdr', NOWHERE, 'nud', 'permanent', 'dev']
    if (direction === 'replies') {
      this.#ip('neigh', 'replace', `${this.#net}.2`, ...nowhere, this.#outside)
    } else {
      this.#ip('-n', this.#name, 'neigh', 'replace', this.address, ...nowhere, this.#inside)
    }
  }

  heal(direction: Direction): void {
    if (direction === 'replies') this.#ip('neigh', 'del', `${this.#net}.2`, 'dev', this.#outside)
    else this.#ip('-n', this.#name, 'neigh', 'del', this.address, 'dev', this.#inside)
  }

  close(): void {
    // The interface inside goes with its namespace, and the one outside with its peer.
    this.#ip('netns', 'del', this.#name)
  }

  #ip(...args: readonly string[]): void {
    execFileSync('ip', args, { stdio: 'pipe' })
  }
}
