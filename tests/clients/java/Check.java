import java.util.Objects;
import java.util.function.BooleanSupplier;

/** What the programs beside this one share: comparisons that end with exit code 1. */
final class Check {
  private Check() {}

  /** Something that may throw anything. */
  interface Action {
    Object run() throws Exception;
  }

  /** Ends the program unless both are the same. */
  static void same(String what, Object got, Object wanted) {
    if (!Objects.equals(got, wanted)) {
      fail(what + ": " + got + ", and not " + wanted);
    }
  }

  /** Ends the program unless this throws, itself or as a cause, something with these words. */
  static void refused(String what, String words, Action action) {
    Object answer;
    try {
      answer = action.run();
    } catch (Exception error) {
      for (Throwable cause = error; cause != null; cause = cause.getCause()) {
        if (String.valueOf(cause).contains(words)) {
          return;
        }
      }
      fail(what + ": " + error + ", and not " + words);
      return;
    }
    fail(what + " is answered with " + answer);
  }

  /** Waits until something holds, and ends the program when it does not. */
  static void soon(String what, BooleanSupplier holds) throws InterruptedException {
    for (long end = System.nanoTime() + 5_000_000_000L; !holds.getAsBoolean(); Thread.sleep(10)) {
      if (System.nanoTime() > end) {
        fail(what + " does not come");
      }
    }
  }

  /** Says what was compared. */
  static void said(String line) {
    System.out.println("ok: " + line);
  }

  private static void fail(String words) {
    System.out.println(words);
    System.exit(1);
  }
}
