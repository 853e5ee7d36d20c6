/**
 * Notices leases that are renewed although nothing in the program references them any more, so that no code can ever
 * release them.
 *
 * A lease is watched from its first automatic renewal on: most are released before, and cost nothing here. Nothing is
 * promised about when an orphan is found: that is when the garbage collector comes by, and it may never.
 */

/** An application's interest in a lease: a reference to it, and what that reference has given out. */
export class Interest<Reference extends object> {
  /** While it is in use, and before the lease is watched. */
  #strong: Reference | null = null
  #weak: WeakRef<Reference> | null = null
  #uses = 0

  /** Null once nothing references it. */
  get reference(): Reference | null {
    return this.#strong ?? this.#weak?.deref() ?? null
  }

  begin(reference: Reference): void {
    this.#strong = reference
    this.#weak = null
  }

  /** Something that the reference has given out is in use until the returned function is called. */
  use(reference: Reference): () => void {
    this.#strong = reference
    this.#uses += 1
    let isInUse = true
    return () => {
      if (isInUse) this.#uses -= 1
      isInUse = false
    }
  }

  /** Holds the reference no longer by itself; gives it when it was not watched before. */
  loosen(): Reference | null {
    if (this.#uses > 0 || this.#strong === null) return null
    const reference = this.#strong
    const isNew = this.#weak === null
    this.#weak ??= new WeakRef(reference)
    this.#strong = null
    return isNew ? reference : null
  }
}

/** A lease that is watched. */
export interface Watched {
  readonly interest: Interest<object>
}

export class Orphans<Handle extends Watched & object> {
  readonly #onOrphan: (handle: Handle) => void
  /** Made for the first lease that is renewed. */
  #registry: FinalizationRegistry<Handle> | null = null

  constructor(onOrphan: (handle: Handle) => void) {
    this.#onOrphan = onOrphan
  }

  watch(handle: Handle): void {
    const reference = handle.interest.loosen()
    if (reference === null) return
    this.#registry ??= new FinalizationRegistry((collected) => {
      // Asked for again by its id, it has got another reference meanwhile.
      if (collected.interest.reference === null) this.#onOrphan(collected)
    })
    this.#registry.register(reference, handle, handle)
  }

  forget(handle: Handle): void {
    this.#registry?.unregister(handle)
  }
}
