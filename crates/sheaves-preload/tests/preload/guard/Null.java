/** Exceptions for null, which the JVM makes of SIGSEGV once the code is compiled. */
public class Null {
    static int length(int[] array) {
        return array.length;
    }

    public static void main(String[] arguments) {
        int caught = 0;
        for (int round = 0; round < 300_000; round++) {
            try {
                length(round % 1000 == 0 ? null : new int[round % 10]);
            } catch (NullPointerException expected) {
                caught++;
            }
        }
        System.out.println(caught == 300 ? "ok" : "caught " + caught);
    }
}
